"""The public names, and where each is defined: `__init__.py` reads this file, too. One import a line."""

from dataformats.batch import Nullable as Nullable
from dataformats.batch import Ragged as Ragged
from dataformats.batch import RecordBatch as RecordBatch
from dataformats.columns.codec_resolver import register_codec as register_codec
from dataformats.converting import convert as convert
from dataformats.converting.report import ConvertReport as ConvertReport
from dataformats.errors import ChecksumError as ChecksumError
from dataformats.errors import CodecError as CodecError
from dataformats.errors import CorruptRecordError as CorruptRecordError
from dataformats.errors import DataFormatsError as DataFormatsError
from dataformats.errors import FormatError as FormatError
from dataformats.errors import MissingExtraError as MissingExtraError
from dataformats.errors import SpecError as SpecError
from dataformats.errors import StateMismatchError as StateMismatchError
from dataformats.errors import TargetExistsError as TargetExistsError
from dataformats.errors import TargetInUseError as TargetInUseError
from dataformats.errors import TruncatedError as TruncatedError
from dataformats.errors import UnknownNameError as UnknownNameError
from dataformats.errors import WorkerError as WorkerError
from dataformats.inspecting.description import Info as Info
from dataformats.inspecting.description import info as info
from dataformats.inspecting.diagnosis import doctor as doctor
from dataformats.inspecting.diff_report import DiffReport as DiffReport
from dataformats.inspecting.diff_report import diff as diff
from dataformats.inspecting.finding import Finding as Finding
from dataformats.inspecting.verification import VerifyReport as VerifyReport
from dataformats.inspecting.verification import verify as verify
from dataformats.interfaces.record_source import RecordSource as RecordSource
from dataformats.interfaces.record_writer import RecordWriter as RecordWriter
from dataformats.loaders.batch import Batch as Batch
from dataformats.loaders.loader import Loader as Loader
from dataformats.loaders.mixture import Mixture as Mixture
from dataformats.loaders.mixture import mix as mix
from dataformats.loaders.pack_batch import pack as pack
from dataformats.loaders.packed_source import packed as packed
from dataformats.loaders.pad import pad as pad
from dataformats.merging import merge as merge
from dataformats.merging import split as split
from dataformats.reading.concat import concat as concat
from dataformats.reading.field_operations import DecodingSource as DecodingSource
from dataformats.reading.joined import zip as zip  # noqa: A004
from dataformats.reading.opening import open as open
from dataformats.reading.opening import register_backend as register_backend
from dataformats.reading.stats import FieldStats as FieldStats
from dataformats.repairing import RepairReport as RepairReport
from dataformats.repairing import repair as repair
from dataformats.spec import Spec as Spec
from dataformats.spec import Type as Type
from dataformats.storage.decoded_cache import set_decoded_cache_bytes as set_decoded_cache_bytes
from dataformats.writing.creating import create as create
from dataformats.writing.dataset_writer import DatasetWriter as DatasetWriter

__version__: str
