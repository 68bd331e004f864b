"""The parts of a report, one file each: a function from a study to a section."""
