//! `list_files`: lists one folder, without the files that rules hide. Unlike `glob` it ignores
//! `.gitignore` and similar files.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use domain::text::size;
use domain::tool::{Job, Location, ToolSpec};
use domain::{Access, CallSite, Outcome, ToolCard, ToolKind};
use policy::{Exposure, HiddenFiles};
use process::confine::{AccessLimits, Roots};
use rustix::fs::{AtFlags, Dir, FileType};
use serde::Deserialize;
use serde_json::json;

use crate::job::{BlockingJob, OnCancel};
use crate::tool::{CallRequest, RefusalReason, Tool, fill, left_out};
use crate::{ToolSettings, input};

const MAX_ENTRIES: usize = 1000;

/// The most names that are read from a folder.
const MAX_NAMES: usize = 100_000;

pub(crate) struct ListFilesTool;

#[derive(Deserialize)]
struct Input {
    #[serde(default = "here", alias = "file_path", alias = "directory", alias = "dir", alias = "folder")]
    path: String,
}

fn here() -> String {
    ".".to_owned()
}

impl Tool for ListFilesTool {
    fn name(&self) -> &'static str {
        "list_files"
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Read
    }

    fn verb(&self) -> &'static str {
        "List"
    }

    fn spec(&self, _settings: &ToolSettings) -> ToolSpec {
        ToolSpec {
            name: self.name().to_owned(),
            description: format!(
                "Lists one folder: subfolders first, with a trailing `/`, then files with their sizes. Hidden and \
                 ignored entries are included; nothing below the folder is. At most {MAX_ENTRIES} entries are shown. \
                 To find files by name anywhere use glob."
            ),
            schema: json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "The folder, relative to the working folder or absolute. Default: the working folder."}
                },
                "required": []
            }),
            read_only: true,
        }
    }

    fn plan(&self, call: CallRequest) -> Result<Box<dyn Job>, RefusalReason> {
        let mut input: Input = input::parse(&call.input)?;
        if input.path.is_empty() {
            input.path = here();
        }
        let confined = call.roots()?.find(&input.path)?;
        confined.open_folder()?;
        let hidden_files = call.hidden_files(self, Exposure::Names);
        let (site, limits, limit) = (call.site, call.limits, call.settings.output_limit);
        let card = ToolCard {
            tool: self.name().to_owned(),
            title: format!("List {}", confined.shown),
            kind: self.kind(),
            locations: vec![Location { path: confined.path, line: None }],
            input: call.input,
            preview: Vec::new(),
            access: Access::Free,
        };
        let work = move |_: &_| {
            let listed = list(&input.path, &site, &limits, &hidden_files, limit);
            listed.unwrap_or_else(|RefusalReason(reason)| Outcome::failed(reason))
        };
        Ok(Box::new(BlockingJob { card, on_cancel: OnCancel::Leave, work }))
    }
}

struct Entry {
    is_folder: bool,
    name: String,
    note: String,
}

fn list(
    path: &str,
    site: &CallSite,
    limits: &AccessLimits,
    hidden_files: &HiddenFiles,
    limit: usize,
) -> Result<Outcome, RefusalReason> {
    let confined = Roots::open(site, limits)?.find(path)?;
    let folder = confined.open_folder()?;
    let failed = |error: rustix::io::Errno| {
        RefusalReason(format!("listing {}: {}", confined.shown, std::io::Error::from(error)))
    };
    let mut entries = Vec::new();
    let mut hidden = 0;
    for entry in Dir::read_from(&folder).map_err(failed)?.take(MAX_NAMES) {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        if confined.hides_below(Path::new(OsStr::from_bytes(name.to_bytes())), hidden_files) {
            hidden += 1;
            continue;
        }
        // An entry that is gone by now is skipped.
        let Ok(stat) = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        let kind = FileType::from_raw_mode(stat.st_mode);
        let note = match kind {
            FileType::Directory => "/".to_owned(),
            FileType::RegularFile => format!("  {}", size(u64::try_from(stat.st_size).unwrap_or(0))),
            FileType::Symlink => match rustix::fs::readlinkat(&folder, name, Vec::new()) {
                Ok(target) => format!(" -> {}", target.to_string_lossy()),
                Err(_) => " -> ?".to_owned(),
            },
            FileType::Fifo => "  (named pipe)".to_owned(),
            FileType::Socket => "  (socket)".to_owned(),
            FileType::CharacterDevice | FileType::BlockDevice => "  (device)".to_owned(),
            FileType::Unknown => "  (unknown)".to_owned(),
        };
        let name = name.to_string_lossy().replace(['\n', '\r'], "?");
        entries.push(Entry { is_folder: kind == FileType::Directory, name, note });
    }
    entries.sort_by(|a, b| b.is_folder.cmp(&a.is_folder).then_with(|| a.name.cmp(&b.name)));
    let (listed, shown) = render(&entries, limit);
    let text = match left_out(hidden, "entry", "entries") {
        None => listed,
        Some(note) if entries.is_empty() => note,
        Some(note) => format!("{}\n{note}", listed.trim_end()),
    };
    let raw = json!({"entries": entries.len(), "truncated": shown < entries.len()});
    Ok(Outcome::completed(text).with_raw(raw))
}

/// Returns the listing and the number of entries in it. It stays within `limit`, except for a note
/// at its end.
fn render(entries: &[Entry], limit: usize) -> (String, usize) {
    if entries.is_empty() {
        return ("[the folder is empty]".to_owned(), 0);
    }
    let lines = entries.iter().take(MAX_ENTRIES).map(|entry| format!("{}{}", entry.name, entry.note));
    let (mut text, shown) = fill(lines, limit);
    if shown < entries.len() {
        let left = entries.len() - shown;
        write!(text, "[{left} more not shown]").expect("writing to a string does not fail");
    }
    (text, shown)
}
