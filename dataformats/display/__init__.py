"""Values for people and for programs: as text, HTML, pictures and JSON, and how two of them differ."""
