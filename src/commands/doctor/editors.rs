//! Editors that can talk to acpd: which are here, and which know it already.

use std::fs;
use std::path::{Path, PathBuf};

use super::finding::Finding;
use super::machine::which;
use crate::cli::Editor;
use crate::commands::setup::editors::recipes;
use crate::paths::Places;

/// An editor, by the names of its programs and by the places where those are that no PATH names.
struct Known {
    name: &'static str,
    editor: Editor,
    programs: &'static [&'static str],
    elsewhere: &'static [&'static str],
}

const KNOWN: [Known; 5] = [
    Known {
        name: "Zed",
        editor: Editor::Zed,
        programs: &["zed", "zeditor", "zedit", "zed-editor"],
        elsewhere: &[
            "~/.local/bin/zed",
            "~/.local/zed.app/bin/zed",
            "~/.local/share/flatpak/exports/bin/dev.zed.Zed",
            "/var/lib/flatpak/exports/bin/dev.zed.Zed",
        ],
    },
    Known {
        name: "a JetBrains IDE",
        editor: Editor::Jetbrains,
        programs: &["idea", "pycharm", "webstorm", "goland", "clion", "rustrover", "phpstorm", "rubymine", "rider"],
        elsewhere: &[
            "~/.local/share/JetBrains/Toolbox/apps",
            "~/.config/JetBrains",
            "/snap/bin/intellij-idea-ultimate",
        ],
    },
    Known { name: "Neovim", editor: Editor::Neovim, programs: &["nvim"], elsewhere: &["/snap/bin/nvim"] },
    Known { name: "Emacs", editor: Editor::Emacs, programs: &["emacs"], elsewhere: &["/snap/bin/emacs"] },
    Known {
        name: "VS Code",
        editor: Editor::Vscode,
        programs: &["code", "codium", "code-oss"],
        elsewhere: &["/snap/bin/code", "/usr/share/code/code", "/var/lib/flatpak/exports/bin/com.visualstudio.code"],
    },
];

pub(super) fn check(places: &Places, path: Option<&str>) -> Vec<Finding> {
    let found = KNOWN.iter().filter_map(|known| Some((known, find(known, places, path)?)));
    let mut findings: Vec<Finding> = found.map(|(known, place)| judge(known, &place, places)).collect();
    if findings.is_empty() {
        let says = "found none of Zed, JetBrains IDEs, Neovim, Emacs, VS Code";
        findings.push(Finding::warn(
            "editors",
            says,
            "any editor that speaks ACP can run `acpd acp`; `acpd ask` needs none",
        ));
    }
    findings
}

fn find(known: &Known, places: &Places, path: Option<&str>) -> Option<PathBuf> {
    let named = known.programs.iter().find_map(|name| which(name, path));
    let home = |place: &&str| match place.strip_prefix("~/") {
        Some(below) => places.home.join(below),
        None => PathBuf::from(place),
    };
    named.or_else(|| known.elsewhere.iter().map(home).find(|place| place.exists()))
}

fn judge(known: &Known, place: &Path, places: &Places) -> Finding {
    let says = format!("{} ({})", known.name, place.display());
    let setup = format!("acpd setup {}", known.editor.name());
    let file = recipes(known.editor, places).into_iter().find_map(|recipe| recipe.file);
    match file {
        // Whether a program in Lua or Lisp sets us up, nobody can tell.
        None => Finding::ok("editors", format!("{says}; its settings: {setup}")),
        Some(file) => match fs::read_to_string(&file.path) {
            Ok(text) if text.contains("\"acpd\"") => Finding::ok("editors", format!("{says} knows acpd")),
            Ok(_) | Err(_) => {
                Finding::warn("editors", format!("{says} does not know acpd"), format!("{setup} --write"))
            }
        },
    }
}
