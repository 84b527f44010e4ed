//! Decodes a page to text: recognises its type and character set by the headers and the bytes.

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

use crate::read_file::binary;

/// The kinds of content that a page may have.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Readable {
    /// A page to be converted to Markdown.
    Html(String),
    /// Text that is shown as it is.
    Text(String),
    /// Binary content, with its probable type.
    Binary(&'static str),
}

/// How many bytes are searched for the declared character set of a page (the number in the HTML
/// standard).
const META_REACH: usize = 1024;

pub(super) fn read(bytes: &[u8], kind: Option<&str>) -> Readable {
    let mime = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default().trim().to_ascii_lowercase();
    let charset = kind.and_then(|kind| charset_in(kind)).and_then(|label| Encoding::for_label(label.as_bytes()));
    let in_utf16 = Encoding::for_bom(bytes).is_some_and(|(encoding, _)| encoding != UTF_8);
    let claims_wide = in_utf16 || charset.is_some_and(|encoding| !encoding.is_ascii_compatible());
    if !claims_wide && binary::is_binary(bytes) || is_binary_kind(&mime) {
        return Readable::Binary(binary::describe(bytes));
    }
    let is_html = match mime.as_str() {
        "text/html" | "application/xhtml+xml" => true,
        "" | "application/octet-stream" => looks_like_html(bytes),
        _ => false,
    };
    let declared = charset.or_else(|| if is_html { charset_of_meta(bytes) } else { None });
    let text = decode(bytes, declared);
    if is_html { Readable::Html(text) } else { Readable::Text(text) }
}

fn is_binary_kind(mime: &str) -> bool {
    match mime.split_once('/') {
        Some(("image", kind)) => kind != "svg+xml",
        Some(("audio" | "video" | "font", _)) => true,
        Some(("application", "pdf" | "zip" | "gzip" | "x-tar" | "wasm")) => true,
        Some(_) | None => false,
    }
}

fn looks_like_html(bytes: &[u8]) -> bool {
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(META_REACH)]).trim_start().to_ascii_lowercase();
    start.starts_with("<!doctype html") || start.starts_with("<html")
}

/// Finds `charset=x` or `charset="x"` in a header or in a meta element.
fn charset_in(text: &str) -> Option<&str> {
    let at = text.to_ascii_lowercase().find("charset=")? + "charset=".len();
    let value = text[at..].trim_start_matches(['"', '\'', ' ']);
    let end = value.find(['"', '\'', ' ', ';', '>', '/']).unwrap_or(value.len());
    Some(&value[..end]).filter(|label| !label.is_empty())
}

fn charset_of_meta(bytes: &[u8]) -> Option<&'static Encoding> {
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(META_REACH)]);
    Encoding::for_label(charset_in(&start)?.as_bytes()).filter(|encoding| encoding.is_ascii_compatible())
}

/// Decodes the bytes. A byte order mark takes precedence over the declared character set.
/// Undeclared text that is not UTF-8 is decoded as browsers do it.
fn decode(bytes: &[u8], declared: Option<&'static Encoding>) -> String {
    let encoding = declared.unwrap_or_else(|| if is_utf8(bytes) { UTF_8 } else { WINDOWS_1252 });
    let (text, _, _) = encoding.decode(bytes);
    text.into_owned()
}

/// Returns whether the bytes are UTF-8. A character that the size limit cut at the end does not
/// count.
fn is_utf8(bytes: &[u8]) -> bool {
    match std::str::from_utf8(bytes) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Readable {
        Readable::Text(text.to_owned())
    }

    fn html(text: &str) -> Readable {
        Readable::Html(text.to_owned())
    }

    #[test]
    fn the_character_set_is_found_where_it_is_declared() {
        assert_eq!(read(b"gr\xfcn", Some("text/plain; charset=ISO-8859-1")), text("grün"));
        assert_eq!(read(b"gr\xc3\xbcn", Some("text/plain")), text("grün"));
        assert_eq!(read(b"gr\xfcn", Some("text/plain")), text("grün"));
        assert_eq!(read(b"gr\xc3\xbcn \xc3", Some("text/plain")), text("grün \u{fffd}"));
        assert_eq!(read(b"\x83e", Some("text/plain; charset=\"Shift_JIS\"")), text("テ"));
        assert_eq!(read(b"\xff\xfea\0b\0", Some("text/plain")), text("ab"));
        assert_eq!(read(b"a\0b\0", Some("text/plain; charset=utf-16le")), text("ab"));
        let page = b"<meta charset=\"koi8-r\"><p>\xc4\xc1";
        assert_eq!(read(page, Some("text/html")), html("<meta charset=\"koi8-r\"><p>да"));
        assert_eq!(read(b"x", Some("text/plain; charset=nonsense")), text("x"));
    }

    #[test]
    fn html_text_and_binaries_are_distinguished() {
        assert_eq!(read(b"<p>", Some("text/html; charset=utf-8")), html("<p>"));
        assert_eq!(read(b"  <!DOCTYPE html><p>", None), html("  <!DOCTYPE html><p>"));
        assert_eq!(read(b"{}", Some("application/json")), text("{}"));
        assert_eq!(read(b"<p>", Some("text/plain")), text("<p>"));
        assert_eq!(read(b"<svg/>", Some("image/svg+xml")), text("<svg/>"));
        assert_eq!(read(b"%PDF-1.7", Some("application/pdf")), Readable::Binary("a PDF document"));
        assert_eq!(read(b"\x7fELF\0\0", Some("text/html")), Readable::Binary("an ELF executable or library"));
    }
}
