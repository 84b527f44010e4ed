//! `read_file`: shows text as numbered lines, images as images, and describes other binary files in a sentence.

pub(crate) mod binary;
mod image;

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::editor::Lines;
use domain::text::{count, size};
use domain::tool::{Job, Location, ToolSpec};
use domain::{Access, CallSite, Outcome, ToolCard, ToolContent, ToolKind};
use process::confine::{AccessLimits, Roots};
use process::fingerprint;
use serde::Deserialize;
use serde_json::json;

use crate::document::{self, Document};
use crate::job::{BlockingJob, OnCancel};
use crate::tool::{Call, Refused, Tool};
use crate::{Settings, input};
use image::Image;

const DEFAULT_LINES: usize = 2000;
const LONGEST_LINE: usize = 2000;

/// Beyond these providers refuse an image: 5 MB in base64, and 8000 pixels a side.
const LARGEST_IMAGE: usize = (5 << 20) / 4 * 3;
const LONGEST_SIDE: u32 = 8000;

pub(crate) struct ReadFile;

#[derive(Clone, Deserialize)]
struct Input {
    #[serde(alias = "file_path", alias = "filename", alias = "file", deserialize_with = "input::filled")]
    path: String,
    #[serde(default, alias = "start_line", alias = "line", deserialize_with = "input::number")]
    offset: Option<u64>,
    #[serde(default, alias = "lines", deserialize_with = "input::number")]
    limit: Option<u64>,
}

impl Input {
    fn first(&self) -> usize {
        usize::try_from(self.offset.unwrap_or(1).max(1)).unwrap_or(usize::MAX)
    }

    /// None if the model asked for the file as it is.
    fn lines(&self) -> Option<Lines> {
        let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let lines = Lines {
            first: self.offset.filter(|first| *first > 0).map(number),
            count: self.limit.filter(|limit| *limit > 0).map(number),
        };
        (lines.first.is_some() || lines.count.is_some()).then_some(lines)
    }

    fn limit(&self) -> Option<usize> {
        self.limit.filter(|limit| *limit > 0).map(|limit| usize::try_from(limit).unwrap_or(usize::MAX))
    }
}

impl Tool for ReadFile {
    fn name(&self) -> &'static str {
        "read_file"
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Read
    }

    fn verb(&self) -> &'static str {
        "Read"
    }

    fn spec(&self, _settings: &Settings) -> ToolSpec {
        ToolSpec {
            name: self.name().to_owned(),
            description: format!(
                "Reads one file. Text comes back as numbered lines: the number right-aligned in six columns, a tab, \
                 then the line; number and tab are not part of the file.\n\
                 - Without `offset` and `limit` you get the first {DEFAULT_LINES} lines, which is most files; prefer \
                 that. Lines over {LONGEST_LINE} characters are cut.\n\
                 - PNG, JPEG, GIF and WebP images come back as images, which you see if you can take images; other \
                 binary files are only described.\n\
                 - A file must be read before edit_file or write_file may change it.\n\
                 - For a folder use list_files, to find text in many files use grep."
            ),
            schema: json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "Relative to the working folder, or absolute inside the session's folders. Example: src/main.rs"},
                    "offset": {"type": "integer", "minimum": 1, "description": "First line to read, counted from 1."},
                    "limit": {"type": "integer", "minimum": 1, "description": format!("Number of lines to read. Default {DEFAULT_LINES}.")}
                },
                "required": ["path"]
            }),
            read_only: true,
        }
    }

    fn plan(&self, call: Call) -> Result<Box<dyn Job>, Refused> {
        let input: Input = input::parse(&call.input)?;
        let confined = call.roots()?.find(&input.path)?;
        // Opened to find out now what cannot be read, such as a folder or a device.
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
        let (site, limits, limit) = (call.site, call.limits, call.settings.output_limit);
        let work =
            move |_: &_| read(&input, &site, &limits, limit).unwrap_or_else(|Refused(reason)| Outcome::failed(reason));
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

fn read(input: &Input, site: &CallSite, limits: &AccessLimits, output_limit: usize) -> Result<Outcome, Refused> {
    let confined = Roots::open(site, limits)?.find(&input.path)?;
    let Document { bytes, unsaved } = document::read_for(&confined, site, input.lines())?;
    let length = bytes.len();
    if let Some(image) = image::look(&bytes) {
        return Ok(show(&confined.shown, &image, &bytes));
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
    let text = String::from_utf8_lossy(&bytes);
    let torn = matches!(text, std::borrow::Cow::Owned(_));
    let page = number_lines(text.trim_start_matches('\u{feff}'), input, output_limit)?;
    site.seen.note(&confined.real, fingerprint::of(&bytes));
    let mut heard = page.text;
    if torn {
        heard.push_str(
            "\n[the file is not valid UTF-8; bad bytes are shown as \u{fffd} and edit_file cannot change it]",
        );
    }
    Ok(Outcome::completed(heard)
        .with_raw(json!({"bytes": length, "lines": page.total, "truncated": page.cut, "unsaved": unsaved})))
}

/// Whether the model accepts images is not known here, so the text is true either way.
fn show(shown: &str, image: &Image, bytes: &[u8]) -> Outcome {
    let Image { mime, pixels } = image;
    let length = size(bytes.len() as u64);
    let Some((width, height)) = *pixels else {
        return Outcome::failed(format!(
            "{shown} looks like an image ({mime}, {length}) but is damaged; it is not shown"
        ));
    };
    let what = format!("{shown} is an image ({mime}, {width} x {height} pixels, {length})");
    let raw = json!({"bytes": bytes.len(), "width": width, "height": height});
    if bytes.len() > LARGEST_IMAGE || width.max(height) > LONGEST_SIDE {
        let most = size(LARGEST_IMAGE as u64);
        let reason = format!("{what}, too large to be shown: at most {LONGEST_SIDE} pixels a side and {most}");
        return Outcome::failed(reason).with_raw(raw);
    }
    let data = STANDARD.encode(bytes);
    Outcome::completed(format!("{what}."))
        .showing(vec![ToolContent::Image { data, mime: (*mime).to_owned() }])
        .with_raw(raw)
}

#[derive(Debug)]
struct LineRange {
    text: String,
    total: usize,
    /// Whether lines follow that were not asked to be left out.
    cut: bool,
}

fn number_lines(text: &str, input: &Input, output_limit: usize) -> Result<LineRange, Refused> {
    let total = text.lines().count();
    if total == 0 {
        return Ok(LineRange { text: "[the file is empty]".to_owned(), total, cut: false });
    }
    let first = input.first();
    if first > total {
        return Err(Refused(format!("`offset` is {first}, but the file has {}", count(total, "line"))));
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
    Ok(LineRange { text: page, total, cut })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str, offset: Option<u64>, limit: Option<u64>) -> String {
        let input = Input { path: "x".to_owned(), offset, limit };
        match number_lines(text, &input, 10_000) {
            Ok(page) => page.text,
            Err(Refused(reason)) => reason,
        }
    }

    #[test]
    fn lines_are_numbered_as_cat_does() {
        assert_eq!(page("a\nb\n", None, None), "     1\ta\n     2\tb\n");
        assert_eq!(page("a\r\nb", None, None), "     1\ta\n     2\tb\n");
    }

    #[test]
    fn a_range_is_read_and_says_how_to_go_on() {
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
