//! `read_file`: shows text as numbered lines, PDFs as their text and images as images, and
//! describes other binary files in a sentence.

pub(crate) mod binary;
mod notebook;

use std::fmt::Write as _;
use std::path::PathBuf;

use attachments::{Converter, Image, ImageLimit};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::editor::LineRange;
use domain::text::{count, cut, size};
use domain::tool::{Job, Location, ToolSpec};
use domain::{Access, CallSite, Outcome, ToolCard, ToolContent, ToolKind};
use process::confine::{ConfinedPath, Roots};
use process::fingerprint;
use project::{EnteredNotes, FolderNotes};
use serde::Deserialize;
use serde_json::json;
use tokio::runtime::Handle;

use crate::document::{self, Document};
use crate::job::{BlockingJob, OnCancel};
use crate::tool::{CallRequest, RefusalReason, Tool, left_out};
use crate::{ToolSettings, input, outputs};

const DEFAULT_LINES: usize = 2000;
const LONGEST_LINE: usize = 2000;

/// The most characters of the notes that come with a file.
const LONGEST_NOTES: usize = 16 << 10;

/// The limit beyond which an image is scaled down before it is recorded. Each provider has its own
/// limits, which are mostly smaller and are applied per request.
const LARGEST_IMAGE: ImageLimit = ImageLimit { side: 3072, bytes: (5 << 20) / 4 * 3 };

/// The note after the text of a PDF.
const PDF_NOTE: &str = "[the text of a PDF, without its pictures and its layout]";

pub(crate) struct ReadFileTool;

#[derive(Clone, Deserialize)]
struct Input {
    #[serde(alias = "file_path", alias = "filename", alias = "file", deserialize_with = "input::filled")]
    path: String,
    #[serde(default, alias = "start_line", alias = "line", deserialize_with = "input::number")]
    offset: Option<u64>,
    #[serde(default, alias = "lines", deserialize_with = "input::number")]
    limit: Option<u64>,
    #[serde(default, deserialize_with = "input::flag")]
    raw: bool,
}

impl Input {
    fn first(&self) -> usize {
        usize::try_from(self.offset.unwrap_or(1).max(1)).unwrap_or(usize::MAX)
    }

    /// Returns the requested lines; None for the whole file.
    fn lines(&self) -> Option<LineRange> {
        let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let lines = LineRange {
            first: self.offset.filter(|first| *first > 0).map(number),
            count: self.limit.filter(|limit| *limit > 0).map(number),
        };
        (lines.first.is_some() || lines.count.is_some()).then_some(lines)
    }

    fn limit(&self) -> Option<usize> {
        self.limit.filter(|limit| *limit > 0).map(|limit| usize::try_from(limit).unwrap_or(usize::MAX))
    }
}

impl Tool for ReadFileTool {
    fn name(&self) -> &'static str {
        "read_file"
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Read
    }

    fn verb(&self) -> &'static str {
        "Read"
    }

    fn spec(&self, _settings: &ToolSettings) -> ToolSpec {
        ToolSpec {
            name: self.name().to_owned(),
            description: format!(
                "Reads one file. Text comes back as numbered lines: the number right-aligned in six columns, a tab, \
                 then the line; number and tab are not part of the file.\n\
                 - Without `offset` and `limit` you get the first {DEFAULT_LINES} lines, which is most files; prefer \
                 that. Lines over {LONGEST_LINE} characters are cut.\n\
                 - PNG, JPEG, GIF and WebP images come back as images, which you see if you can take images; other \
                 binary files are only described. A PDF comes back as its text, and a notebook (.ipynb) as the text of its \
                 cells.\n\
                 - A file must be read before edit_file or write_file may change it.\n\
                 - For a folder use list_files, to find text in many files use grep."
            ),
            schema: json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "Relative to the working folder, or absolute inside the session's folders. Example: src/main.rs"},
                    "offset": {"type": "integer", "minimum": 1, "description": "First line to read, counted from 1."},
                    "limit": {"type": "integer", "minimum": 1, "description": format!("Number of lines to read. Default {DEFAULT_LINES}.")},
                    "raw": {"type": "boolean", "description": "Read a notebook as the JSON that it is, to edit it. Default: false."}
                },
                "required": ["path"]
            }),
            read_only: true,
        }
    }

    fn plan(&self, call: CallRequest) -> Result<Box<dyn Job>, RefusalReason> {
        let input: Input = input::parse(&call.input)?;
        if let Some(path) = outputs::find(&call.settings, &call.site.session, &input.path) {
            return self.plan_output(input, path, call);
        }
        let confined = call.roots()?.find(&input.path)?;
        // Opening the file now refuses what cannot be read, such as a folder or a device.
        confined.open_file()?;
        let line = input.offset.map(|_| u32::try_from(input.first()).unwrap_or(u32::MAX));
        let card = ToolCard {
            tool: self.name().to_owned(),
            title: format!("Read {}{}", confined.shown, range(&input)),
            kind: self.kind(),
            locations: vec![Location { path: confined.path, line }],
            input: call.input,
            preview: Vec::new(),
            access: Access::Free,
        };
        let converter = Converter::new(&call.settings.launcher.runner);
        let (site, limits, settings, rules) = (call.site, call.limits, call.settings, call.rules);
        let work = move |_: &_| {
            let confined =
                Roots::open(&site, &limits).and_then(|roots| roots.find(&input.path)).map_err(RefusalReason::from);
            let read = confined.and_then(|confined| {
                let outcome = read(&input, &site, &confined, settings.output_limit, &converter)?;
                let notes = FolderNotes { names: &settings.note_names, rules: &rules, protected: confined.protected() };
                Ok(with_notes(outcome, &notes.on_the_way_to(&confined.real, &site)))
            });
            read.unwrap_or_else(|RefusalReason(reason)| Outcome::failed(reason))
        };
        Ok(Box::new(BlockingJob { card, on_cancel: OnCancel::Leave, work }))
    }
}

impl ReadFileTool {
    /// Plans reading a file with long command output, which is outside the session's folders.
    fn plan_output(&self, input: Input, path: PathBuf, call: CallRequest) -> Result<Box<dyn Job>, RefusalReason> {
        let unreadable = |error: std::io::Error| RefusalReason(format!("reading {}: {error}", path.display()));
        outputs::read(&path).map_err(unreadable)?;
        let card = ToolCard {
            tool: self.name().to_owned(),
            title: format!("Read the output of a command{}", range(&input)),
            kind: self.kind(),
            locations: vec![Location { path: path.clone(), line: None }],
            input: call.input,
            preview: Vec::new(),
            access: Access::Free,
        };
        let limit = call.settings.output_limit;
        let work = move |_: &_| {
            let bytes = match outputs::read(&path) {
                Ok(bytes) => bytes,
                Err(error) => return Outcome::failed(format!("reading {}: {error}", path.display())),
            };
            let text = process::readable(&bytes);
            match number_lines(&text, &input, limit) {
                Ok(page) => Outcome::completed(page.text).with_raw(json!({"lines": page.total, "truncated": page.cut})),
                Err(RefusalReason(reason)) => Outcome::failed(reason),
            }
        };
        Ok(Box::new(BlockingJob { card, on_cancel: OnCancel::Leave, work }))
    }
}

fn range(input: &Input) -> String {
    match (input.offset, input.limit()) {
        (None, None) => String::new(),
        (Some(_), None) => format!(" (from line {})", input.first()),
        (_, Some(limit)) => format!(" (lines {}-{})", input.first(), input.first().saturating_add(limit - 1)),
    }
}

/// Adds the notes of the folders that the model enters with this file. Users see only the file.
fn with_notes(mut outcome: Outcome, notes: &EnteredNotes) -> Outcome {
    if !notes.text.is_empty() {
        if outcome.content.is_empty() {
            outcome.content.push(ToolContent::text(outcome.text.clone()));
        }
        let text = cut(&notes.text, LONGEST_NOTES);
        outcome.text.push_str(&format!("\n[notes for the folder of this file:]{text}"));
    }
    if let Some(left_out) = left_out(notes.withheld, "file with notes", "files with notes") {
        outcome.text.push_str(&format!("\n{left_out}"));
    }
    outcome
}

fn read(
    input: &Input,
    site: &CallSite,
    confined: &ConfinedPath,
    output_limit: usize,
    converter: &Converter,
) -> Result<Outcome, RefusalReason> {
    let Document { bytes, unsaved } = document::read_for(confined, site, input.lines())?;
    let length = bytes.len();
    if let Some(image) = attachments::read_header(&bytes) {
        return Ok(show(&confined.shown, &image, bytes, converter));
    }
    if bytes.starts_with(b"%PDF-") {
        return read_pdf(&confined.shown, &bytes, input, output_limit, converter);
    }
    if binary::is_binary(&bytes) {
        let what = binary::describe(&bytes);
        return Ok(Outcome::completed(format!(
            "{} is {what}, {}; it is not shown",
            confined.shown,
            size(length as u64)
        ))
        .with_raw(json!({"bytes": length, "binary": true})));
    }
    if let Some(text) = (!input.raw && input.path.ends_with(".ipynb")).then(|| notebook::read(&bytes)).flatten() {
        let page = number_lines(&text, input, output_limit)?;
        let answer = format!("{}\n{}", page.text.trim_end(), notebook::NOTE);
        return Ok(
            Outcome::completed(answer).with_raw(json!({"bytes": length, "lines": page.total, "truncated": page.cut}))
        );
    }
    let text = String::from_utf8_lossy(&bytes);
    let torn = matches!(text, std::borrow::Cow::Owned(_));
    let page = number_lines(text.trim_start_matches('\u{feff}'), input, output_limit)?;
    site.seen.note_text(&confined.real, fingerprint::of(&bytes), &text);
    let mut answer = page.text;
    if torn {
        answer.push_str(
            "\n[the file is not valid UTF-8; bad bytes are shown as \u{fffd} and edit_file cannot change it]",
        );
    }
    Ok(Outcome::completed(answer)
        .with_raw(json!({"bytes": length, "lines": page.total, "truncated": page.cut, "unsaved": unsaved})))
}

/// Reads a PDF as numbered lines of its text.
fn read_pdf(
    shown: &str,
    bytes: &[u8],
    input: &Input,
    output_limit: usize,
    converter: &Converter,
) -> Result<Outcome, RefusalReason> {
    let length = bytes.len();
    let what = format!("{shown} is a PDF document, {}", size(length as u64));
    let text = match Handle::current().block_on(converter.pdf_to_text(bytes)) {
        Ok(text) if text.is_empty() => {
            let reason = format!("{what}; its pages have no text, and pictures of them are not shown");
            return Ok(Outcome::completed(reason).with_raw(json!({"bytes": length, "binary": true})));
        }
        Ok(text) => text,
        Err(error) => return Err(RefusalReason(format!("{what}; {error}"))),
    };
    let page = number_lines(&text, input, output_limit)?;
    let answer = format!("{}\n{PDF_NOTE}", page.text.trim_end());
    Ok(Outcome::completed(answer).with_raw(json!({"bytes": length, "lines": page.total, "truncated": page.cut})))
}

/// Returns an image. Whether the model accepts images is not known here, so the text fits both
/// cases.
fn show(shown: &str, image: &Image, bytes: Vec<u8>, converter: &Converter) -> Outcome {
    let Image { mime, pixels } = image;
    let length = size(bytes.len() as u64);
    let Some((width, height)) = *pixels else {
        return Outcome::failed(format!(
            "{shown} looks like an image ({mime}, {length}) but is damaged; it is not shown"
        ));
    };
    let mut what = format!("{shown} is an image ({mime}, {width} x {height} pixels, {length})");
    let raw = json!({"bytes": bytes.len(), "width": width, "height": height});
    let (file, mime) = if LARGEST_IMAGE.admits(bytes.len(), *pixels) {
        (bytes, *mime)
    } else {
        let scaled = match Handle::current().block_on(converter.scale(&bytes, LARGEST_IMAGE)) {
            Ok(scaled) => scaled,
            Err(error) => return Outcome::failed(format!("{what}; it cannot be scaled: {error}")).with_raw(raw),
        };
        what.push_str(", scaled down");
        let mime = attachments::read_header(&scaled).map_or(*mime, |scaled| scaled.mime);
        (scaled, mime)
    };
    let data = STANDARD.encode(&file);
    Outcome::completed(format!("{what}."))
        .showing(vec![ToolContent::Image { data, mime: mime.to_owned() }])
        .with_raw(raw)
}

#[derive(Debug)]
struct NumberedLines {
    text: String,
    total: usize,
    /// Whether requested lines are missing at the end.
    cut: bool,
}

fn number_lines(text: &str, input: &Input, output_limit: usize) -> Result<NumberedLines, RefusalReason> {
    let total = text.lines().count();
    if total == 0 {
        return Ok(NumberedLines { text: "[the file is empty]".to_owned(), total, cut: false });
    }
    let first = input.first();
    if first > total {
        return Err(RefusalReason(format!("`offset` is {first}, but the file has {}", count(total, "line"))));
    }
    let wanted = input.limit().unwrap_or(DEFAULT_LINES);
    let mut page = String::new();
    let mut last = first - 1;
    for line in text.lines().skip(first - 1).take(wanted) {
        let (line, cut) = match line.char_indices().nth(LONGEST_LINE) {
            None => (line, ""),
            Some((end, _)) => (&line[..end], " [line cut]"),
        };
        let before = page.len();
        writeln!(page, "{:>6}\t{line}{cut}", last + 1).expect("writing to a string does not fail");
        if page.len() > output_limit && last >= first {
            page.truncate(before);
            break;
        }
        last += 1;
    }
    let cut = last < total && input.limit().is_none_or(|limit| last - first + 1 < limit);
    if last < total {
        write!(page, "[{last} of {total} lines; go on with offset {}]", last + 1)
            .expect("writing to a string does not fail");
    }
    Ok(NumberedLines { text: page, total, cut })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str, offset: Option<u64>, limit: Option<u64>) -> String {
        let input = Input { path: "x".to_owned(), offset, limit, raw: false };
        match number_lines(text, &input, 10_000) {
            Ok(page) => page.text,
            Err(RefusalReason(reason)) => reason,
        }
    }

    #[test]
    fn lines_are_numbered_as_cat_does() {
        assert_eq!(page("a\nb\n", None, None), "     1\ta\n     2\tb\n");
        assert_eq!(page("a\r\nb", None, None), "     1\ta\n     2\tb\n");
    }

    #[test]
    fn a_range_is_read_with_a_hint_for_the_rest() {
        assert_eq!(page("a\nb\nc\nd", Some(2), Some(2)), "     2\tb\n     3\tc\n[3 of 4 lines; go on with offset 4]");
        assert_eq!(page("a\nb", Some(2), None), "     2\tb\n");
        assert_eq!(page("a\nb", Some(9), None), "`offset` is 9, but the file has 2 lines");
        assert_eq!(page("", Some(9), None), "[the file is empty]");
    }

    #[test]
    fn long_lines_and_long_pages_are_cut() {
        let long = "x".repeat(5000);
        assert!(page(&long, None, None).ends_with("x [line cut]\n"));
        let text = "0123456789\n".repeat(3000);
        let page = page(&text, None, None);
        assert!(page.len() < 10_100 && page.contains(" of 3000 lines; go on with offset "), "{}", page.len());
    }
}
