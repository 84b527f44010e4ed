//! Extracts the text of a PDF. Runs in the helper process only.

/// The argument after `__run`.
pub(crate) const ARGUMENT: &str = "pdf";

/// The most bytes of text that are kept.
const MAX_TEXT_BYTES: usize = 4 << 20;

/// Returns the text of all pages, each below a line with its number; empty if no page has text.
/// Returns None if the file cannot be read as a PDF.
pub(crate) fn to_text(pdf: &[u8]) -> Option<String> {
    let pages = pdf_extract::extract_text_from_mem_by_pages(pdf).ok()?;
    let mut text = String::new();
    for (page, number) in pages.iter().map(|page| without_gaps(page)).zip(1..) {
        if !page.is_empty() {
            text.push_str(&format!("[page {number}]\n{page}\n"));
        }
        if text.len() > MAX_TEXT_BYTES {
            text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
            text.push_str(&format!("\n[the text is cut on page {number} of {}]\n", pages.len()));
            break;
        }
    }
    Some(text)
}

/// Removes control characters, trailing spaces and repeated blank lines, which come from the page
/// layout.
fn without_gaps(page: &str) -> String {
    let mut clean = String::with_capacity(page.len());
    let mut is_blank = true;
    for line in page.lines() {
        let line: String = line.chars().filter(|letter| !letter.is_control()).collect();
        let line = line.trim_end();
        if !(line.is_empty() && is_blank) {
            clean.push_str(line);
            clean.push('\n');
        }
        is_blank = line.is_empty();
    }
    clean.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use testkit::documents::pdf;

    use super::*;

    #[test]
    fn the_text_of_each_page_stands_below_its_number() {
        let text = to_text(&pdf(&["A report.", "", "The end."]));
        assert_eq!(text.as_deref(), Some("[page 1]\nA report.\n[page 3]\nThe end.\n"));
    }

    #[test]
    fn a_file_that_is_not_a_pdf_has_no_text() {
        assert_eq!(to_text(b"%PDF-1.4\nnothing"), None);
        assert_eq!(to_text(b""), None);
    }
}
