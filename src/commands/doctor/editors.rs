//! Checks which of the editors that can use acpd are installed, and which of these are configured
//! for it.

use std::fs;
use std::path::{Path, PathBuf};

use super::finding::Finding;
use super::machine::which;
use crate::cli::EditorName;
use crate::commands::setup::command_of;
use crate::commands::setup::editors::setups;
use crate::launch;
use crate::paths::Paths;

/// An editor, with the names of its programs and its install locations outside PATH.
struct KnownEditor {
    name: &'static str,
    editor: EditorName,
    programs: &'static [&'static str],
    elsewhere: &'static [&'static str],
}

const KNOWN_EDITORS: [KnownEditor; 5] = [
    KnownEditor {
        name: "Zed",
        editor: EditorName::Zed,
        programs: &["zed", "zeditor", "zedit", "zed-editor"],
        elsewhere: &[
            "~/.local/bin/zed",
            "~/.local/zed.app/bin/zed",
            "~/.local/share/flatpak/exports/bin/dev.zed.Zed",
            "/var/lib/flatpak/exports/bin/dev.zed.Zed",
        ],
    },
    KnownEditor {
        name: "a JetBrains IDE",
        editor: EditorName::Jetbrains,
        programs: &["idea", "pycharm", "webstorm", "goland", "clion", "rustrover", "phpstorm", "rubymine", "rider"],
        elsewhere: &[
            "~/.local/share/JetBrains/Toolbox/apps",
            "~/.config/JetBrains",
            "/snap/bin/intellij-idea-ultimate",
        ],
    },
    KnownEditor { name: "Neovim", editor: EditorName::Neovim, programs: &["nvim"], elsewhere: &["/snap/bin/nvim"] },
    KnownEditor { name: "Emacs", editor: EditorName::Emacs, programs: &["emacs"], elsewhere: &["/snap/bin/emacs"] },
    KnownEditor {
        name: "VS Code",
        editor: EditorName::Vscode,
        programs: &["code", "codium", "code-oss"],
        elsewhere: &["/snap/bin/code", "/usr/share/code/code", "/var/lib/flatpak/exports/bin/com.visualstudio.code"],
    },
];

pub(super) fn check(places: &Paths, path: Option<&str>) -> Vec<Finding> {
    let found = KNOWN_EDITORS.iter().filter_map(|known| Some((known, find(known, places, path)?)));
    let mut findings: Vec<Finding> = found.map(|(known, place)| judge(known, &place, places, path)).collect();
    if findings.is_empty() {
        let says = "found none of Zed, JetBrains IDEs, Neovim, Emacs, VS Code";
        findings.push(Finding::warn(
            "editors",
            says,
            "any editor with ACP support can run `acpd acp`; `acpd ask` needs no editor",
        ));
    }
    findings
}

fn find(known: &KnownEditor, places: &Paths, path: Option<&str>) -> Option<PathBuf> {
    let named = known.programs.iter().find_map(|name| which(name, path));
    let home = |place: &&str| match place.strip_prefix("~/") {
        Some(below) => places.home.join(below),
        None => PathBuf::from(place),
    };
    named.or_else(|| known.elsewhere.iter().map(home).find(|place| place.exists()))
}

fn judge(known: &KnownEditor, place: &Path, places: &Paths, path: Option<&str>) -> Finding {
    let says = format!("{} ({})", known.name, place.display());
    let setup = format!("acpd setup {}", known.editor.name());
    let Some(file) = setups(known.editor, places).into_iter().find_map(|setup| setup.file) else {
        // This program cannot find out whether a Lua or Lisp configuration starts acpd.
        return Finding::ok("editors", format!("{says}; its settings: {setup}"));
    };
    let amiss = |what: String| Finding::warn("editors", format!("{says} {what}"), format!("{setup} --write"));
    let Some(command) = command_of(&file) else { return amiss("has no settings for acpd".to_owned()) };
    match which(&command, path) {
        None => amiss(format!("starts {command}, which does not exist")),
        Some(program) if is_this(&program) => Finding::ok("editors", format!("{says} is set up for acpd")),
        Some(program) => amiss(format!("starts another acpd, {}", program.display())),
    }
}

/// Whether a path leads to the running program, under any name.
fn is_this(program: &Path) -> bool {
    let real = |path: PathBuf| fs::canonicalize(&path).unwrap_or(path);
    launch::own_program().is_ok_and(|own| real(own) == real(program.to_owned()))
}
