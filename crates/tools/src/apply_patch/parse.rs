//! Parses the patch format that OpenAI's models are trained on. Knows no files.
//!
//! ```text
//! *** Begin Patch
//! *** Update File: src/lib.rs
//! *** Move to: src/new.rs          (optional)
//! @@ fn main() {                   (optional: a line above the change; several narrow it down)
//!  context
//! -old line
//! +new line
//! *** End of File                  (optional: the change is at the end)
//! *** Add File: a.txt
//! +content
//! *** Delete File: b.txt
//! *** End Patch
//! ```

/// The most files in one patch, and the most hunks in one file.
const MAX_FILES: usize = 50;
const MAX_HUNKS: usize = 500;

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const END_OF_FILE: &str = "*** End of File";

/// The operation of a patch on one file.
#[derive(Debug, PartialEq)]
pub(super) enum FilePatch {
    Add { path: String, text: String },
    Delete { path: String },
    Update { path: String, to: Option<String>, hunks: Vec<Hunk> },
}

/// One change in a file.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Hunk {
    /// Lines above the change, from the outermost to the innermost.
    pub(super) anchors: Vec<String>,
    pub(super) lines: Vec<HunkLine>,
    /// Whether the change is at the end of the file.
    pub(super) at_end: bool,
}

#[derive(Debug, PartialEq)]
pub(super) enum HunkLine {
    Context(String),
    Remove(String),
    Add(String),
}

/// Parses a patch. The error names the line that is wrong.
pub(super) fn parse(patch: &str) -> Result<Vec<FilePatch>, String> {
    let lines: Vec<&str> = patch.lines().map(|line| line.trim_end_matches('\r')).collect();
    // Models wrap patches in code fences or here-documents, which are skipped.
    let begin = lines.iter().position(|line| line.trim() == BEGIN);
    let begin = begin.ok_or_else(|| format!("the patch must begin with the line `{BEGIN}`"))?;
    let end = lines.iter().rposition(|line| line.trim() == END).filter(|end| *end > begin);
    let end = end.ok_or_else(|| format!("the patch must end with the line `{END}`; was it cut off?"))?;
    let mut reader = Reader { lines: &lines[..end], at: begin + 1 };
    let mut files = Vec::new();
    while let Some(line) = reader.next() {
        if line.trim().is_empty() {
            continue;
        }
        if files.len() == MAX_FILES {
            return Err(format!("a patch may change {MAX_FILES} files at most"));
        }
        files.push(reader.file(line)?);
    }
    if files.is_empty() {
        return Err("the patch changes no file".to_owned());
    }
    Ok(files)
}

struct Reader<'a> {
    lines: &'a [&'a str],
    /// The index of the next line.
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.at).copied()
    }

    fn next(&mut self) -> Option<&'a str> {
        let line = self.peek()?;
        self.at += 1;
        Some(line)
    }

    fn wrong(&self, line: &str, expected: &str) -> String {
        format!("line {} of the patch is `{}`; expected {expected}", self.at, domain::text::cut(line, 100))
    }

    fn file(&mut self, line: &str) -> Result<FilePatch, String> {
        let named = |prefix: &str| line.trim().strip_prefix(prefix).map(|path| path.trim().to_owned());
        let file = if let Some(path) = named("*** Add File:") {
            let text = self.added()?;
            FilePatch::Add { path, text }
        } else if let Some(path) = named("*** Delete File:") {
            FilePatch::Delete { path }
        } else if let Some(path) = named("*** Update File:") {
            self.update(path)?
        } else {
            return Err(self.wrong(line, "`*** Add File: `, `*** Update File: ` or `*** Delete File: ` and a path"));
        };
        let (FilePatch::Add { path, .. } | FilePatch::Delete { path } | FilePatch::Update { path, .. }) = &file;
        if path.is_empty() {
            return Err(self.wrong(line, "a path"));
        }
        Ok(file)
    }

    fn added(&mut self) -> Result<String, String> {
        let mut text = String::new();
        while let Some(line) = self.peek().filter(|line| !line.starts_with("*** ")) {
            self.at += 1;
            match line.strip_prefix('+') {
                Some(line) => {
                    text.push_str(line);
                    text.push('\n');
                }
                None if line.trim().is_empty() => {}
                None => return Err(self.wrong(line, "a line of the new file that begins with `+`")),
            }
        }
        Ok(text)
    }

    fn update(&mut self, path: String) -> Result<FilePatch, String> {
        let to = self.peek().and_then(|line| line.trim().strip_prefix("*** Move to:")).map(|to| to.trim().to_owned());
        if to.is_some() {
            self.at += 1;
        }
        let mut hunks = Vec::new();
        while self.peek().is_some_and(|line| !line.starts_with("*** ")) {
            if hunks.len() == MAX_HUNKS {
                return Err(format!("a patch may have {MAX_HUNKS} changes per file at most"));
            }
            hunks.extend(self.hunk()?);
        }
        if hunks.is_empty() && to.is_none() {
            return Err(format!("the patch changes nothing in {path}"));
        }
        Ok(FilePatch::Update { path, to, hunks })
    }

    /// Parses one hunk. Returns None if only blank lines are left before the next file.
    fn hunk(&mut self) -> Result<Option<Hunk>, String> {
        let mut hunk = Hunk::default();
        while let Some(header) = self.peek().and_then(|line| line.strip_prefix("@@")) {
            self.at += 1;
            let anchor = header.strip_prefix(' ').unwrap_or(header).trim_end();
            if !anchor.trim().is_empty() && !is_line_numbers(anchor) {
                hunk.anchors.push(anchor.to_owned());
            }
        }
        while let Some(line) = self.peek() {
            if line.trim_end() == END_OF_FILE {
                self.at += 1;
                hunk.at_end = true;
                break;
            }
            if line.starts_with("*** ") || line.starts_with("@@") {
                break;
            }
            self.at += 1;
            hunk.lines.push(match line.split_at_checked(1) {
                Some(("+", rest)) => HunkLine::Add(rest.to_owned()),
                Some(("-", rest)) => HunkLine::Remove(rest.to_owned()),
                Some((" ", rest)) => HunkLine::Context(rest.to_owned()),
                // Models omit the space of an empty context line.
                None if line.is_empty() => HunkLine::Context(String::new()),
                Some(_) | None => return Err(self.wrong(line, "a line that begins with a space, `-` or `+`")),
            });
        }
        // Blank lines between this hunk and the next file are not context.
        let is_empty = |line: &HunkLine| *line == HunkLine::Context(String::new());
        if self.peek().is_none_or(|line| line.starts_with("*** ")) && !hunk.at_end {
            let kept = hunk.lines.iter().rposition(|line| !is_empty(line)).map_or(0, |last| last + 1);
            hunk.lines.truncate(kept);
        }
        if hunk.lines.is_empty() && hunk.anchors.is_empty() {
            return Ok(None);
        }
        if !hunk.lines.iter().any(|line| matches!(line, HunkLine::Add(_) | HunkLine::Remove(_))) {
            return Err(format!(
                "a change before line {} of the patch has no line that begins with `-` or `+`",
                self.at
            ));
        }
        Ok(Some(hunk))
    }
}

/// Returns whether a hunk header is that of an ordinary diff, such as `-1,3 +1,4 @@`.
fn is_line_numbers(anchor: &str) -> bool {
    anchor.starts_with('-') && anchor.contains(" +") && anchor.contains("@@")
}

#[cfg(test)]
mod tests {
    use super::HunkLine::{Add, Context, Remove};
    use super::*;

    fn line(make: fn(String) -> HunkLine, text: &str) -> HunkLine {
        make(text.to_owned())
    }

    #[test]
    fn all_parts_of_the_format_are_read() {
        let patch = "```\n*** Begin Patch\n*** Add File: a.txt\n+one\n+\n+two\n*** Update File: b.rs\n*** Move to: c.rs\n\
                     @@ mod tests {\n@@ fn it() {\n before\n-old\n+new\n\n after\n@@\n-last\n*** End of File\n\
                     *** Delete File: d.txt\n*** End Patch\n```\n";
        let first = Hunk {
            anchors: vec!["mod tests {".to_owned(), "fn it() {".to_owned()],
            lines: vec![
                line(Context, "before"),
                line(Remove, "old"),
                line(Add, "new"),
                line(Context, ""),
                line(Context, "after"),
            ],
            at_end: false,
        };
        let second = Hunk { anchors: Vec::new(), lines: vec![line(Remove, "last")], at_end: true };
        assert_eq!(
            parse(patch).unwrap(),
            [
                FilePatch::Add { path: "a.txt".to_owned(), text: "one\n\ntwo\n".to_owned() },
                FilePatch::Update { path: "b.rs".to_owned(), to: Some("c.rs".to_owned()), hunks: vec![first, second] },
                FilePatch::Delete { path: "d.txt".to_owned() },
            ]
        );
    }

    #[test]
    fn a_first_hunk_needs_no_header_and_line_numbers_are_ignored() {
        let patch = "*** Begin Patch\n*** Update File: a\n-x\n+y\n@@ -1,2 +1,3 @@\n z\n+w\n\n*** End Patch";
        let FilePatch::Update { hunks, .. } = &parse(patch).unwrap()[0] else { panic!("it is an update") };
        assert_eq!(hunks[0].lines, [line(Remove, "x"), line(Add, "y")]);
        assert_eq!((hunks[1].anchors.len(), &hunks[1].lines), (0, &vec![line(Context, "z"), line(Add, "w")]));
    }

    #[test]
    fn an_invalid_patch_is_refused_with_its_line() {
        for (patch, reason) in [
            ("--- a\n+++ b\n", "the patch must begin with the line `*** Begin Patch`"),
            (
                "*** Begin Patch\n*** Add File: a\n+x\n",
                "the patch must end with the line `*** End Patch`; was it cut off?",
            ),
            ("*** Begin Patch\n*** End Patch", "the patch changes no file"),
            (
                "*** Begin Patch\n*** Add File: a\nx\n*** End Patch",
                "line 3 of the patch is `x`; expected a line of the new file",
            ),
            ("*** Begin Patch\nhello\n*** End Patch", "line 2 of the patch is `hello`; expected `*** Add File: `"),
            ("*** Begin Patch\n*** Update File: a\n*** End Patch", "the patch changes nothing in a"),
            (
                "*** Begin Patch\n*** Update File: a\n@@\n x\n*** End Patch",
                "a change before line 4 of the patch has no line",
            ),
            (
                "*** Begin Patch\n*** Update File: a\n=x\n*** End Patch",
                "line 3 of the patch is `=x`; expected a line that",
            ),
            (
                "*** Begin Patch\n*** Delete File:\n*** End Patch",
                "line 2 of the patch is `*** Delete File:`; expected a path",
            ),
        ] {
            let actual = parse(patch).unwrap_err();
            assert!(actual.starts_with(reason), "{actual}");
        }
        let many: String = (0..51).map(|number| format!("*** Delete File: {number}\n")).collect();
        let actual = parse(&format!("*** Begin Patch\n{many}*** End Patch")).unwrap_err();
        assert_eq!(actual, "a patch may change 50 files at most");
    }
}
