//! Recognises the type of a binary file by its first bytes.

/// Returns whether there is a NUL byte near the start, which is git's criterion.
pub(crate) fn is_binary(bytes: &[u8]) -> bool {
    bytes[..bytes.len().min(8000)].contains(&0)
}

pub(crate) fn describe(bytes: &[u8]) -> &'static str {
    const KINDS: [(&[u8], &str); 13] = [
        (b"\x7fELF", "an ELF executable or library"),
        (b"%PDF-", "a PDF document"),
        (b"PK\x03\x04", "a zip archive (or a document built on one)"),
        (b"\x1f\x8b", "a gzip archive"),
        (b"BZh", "a bzip2 archive"),
        (b"\xfd7zXZ\0", "an xz archive"),
        (b"\x28\xb5\x2f\xfd", "a zstd archive"),
        (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
        (b"SQLite format 3\0", "an SQLite database"),
        (b"\0asm", "a WebAssembly module"),
        (b"\xff\xfe", "text in UTF-16, or binary"),
        (b"\xfe\xff", "text in UTF-16, or binary"),
        (b"MZ", "a Windows executable"),
    ];
    let known = KINDS.iter().find(|(magic, _)| bytes.starts_with(magic));
    known.map_or("a binary file", |(_, what)| what)
}
