//! The settings for each editor, and the file from which it reads them. The texts are in
//! `examples/editors`.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use crate::cli::EditorName;
use crate::paths::Paths;

/// The path of the program in the texts, which is replaced by the real one.
pub const PLACEHOLDER: &str = "/home/you/.cargo/bin/acpd";

/// The name of acpd's entry in the texts.
const ENTRY: &str = "acpd";

/// One way of setting up an editor.
pub struct EditorSetup {
    pub title: &'static str,
    pub template: Cow<'static, str>,
    /// The name of acpd's entry in the text.
    pub entry: String,
    /// Instructions: what to do with the text, and how to find acpd in the editor afterwards.
    pub then: &'static str,
    pub file: Option<SettingsFile>,
}

/// A JSON file that `--write` can change.
pub struct SettingsFile {
    pub path: PathBuf,
    /// The key under which the file lists agents.
    pub agents: &'static str,
}

impl EditorSetup {
    /// Returns the text with the program's path. Strings are written in the same way in JSON, Lua
    /// and Emacs Lisp.
    pub fn text(&self, program: &Path) -> String {
        let quoted = serde_json::Value::from(program.to_string_lossy()).to_string();
        self.template.replace(&format!("\"{PLACEHOLDER}\""), &quoted)
    }

    /// Returns the setup for a separate entry, whose sessions the given agent answers.
    pub fn for_agent(self, agent: &str) -> Self {
        let entry = format!("{ENTRY}-{agent}");
        // Emacs Lisp has no commas between elements.
        let comma = if self.template.starts_with('(') { "" } else { "," };
        let template = self
            .template
            .replace("\"acp\"", &format!("\"acp\"{comma} \"--agent\"{comma} \"{agent}\""))
            .replace(&format!("\"{ENTRY}\""), &format!("\"{entry}\""))
            .replace(&format!("\"{ENTRY}> \""), &format!("\"{entry}> \""))
            .replace(&format!("'{ENTRY}\n"), &format!("'{entry}\n"))
            .replace(&format!("  {ENTRY} = "), &format!("  [\"{entry}\"] = "));
        Self { template: template.into(), entry, ..self }
    }
}

pub fn setups(editor: EditorName, places: &Paths) -> Vec<EditorSetup> {
    match editor {
        EditorName::Zed => vec![zed(places)],
        EditorName::Jetbrains => vec![jetbrains(places)],
        EditorName::Neovim => vec![codecompanion(), avante()],
        EditorName::Codecompanion => vec![codecompanion()],
        EditorName::Avante => vec![avante()],
        EditorName::Emacs => vec![emacs()],
        EditorName::Vscode => vec![vscode(places)],
    }
}

fn zed(places: &Paths) -> EditorSetup {
    let sandboxed = places.home.join(".var/app/dev.zed.Zed/config/zed/settings.json");
    let usual = places.of_configuration("zed/settings.json");
    let path = if sandboxed.exists() && !usual.exists() { sandboxed } else { usual };
    EditorSetup {
        title: "Zed",
        template: include_str!("../../../examples/editors/zed.json").into(),
        entry: ENTRY.to_owned(),
        then: "In the agent panel, + and acpd start a thread.",
        file: Some(SettingsFile { path, agents: "agent_servers" }),
    }
}

fn jetbrains(places: &Paths) -> EditorSetup {
    EditorSetup {
        title: "JetBrains IDEs",
        template: include_str!("../../../examples/editors/jetbrains.json").into(),
        entry: ENTRY.to_owned(),
        then: "In the AI Chat, acpd is in the list of agents.",
        file: Some(SettingsFile { path: places.home.join(".jetbrains/acp.json"), agents: "agent_servers" }),
    }
}

fn vscode(places: &Paths) -> EditorSetup {
    let settings = |name: &str| places.of_configuration(name).join("User/settings.json");
    let known = ["Code", "VSCodium", "Code - OSS"].map(settings);
    let found = known.iter().find(|path| path.exists()).cloned();
    EditorSetup {
        title: "VS Code with the extension ACP Client (formulahendry.acp-client)",
        template: include_str!("../../../examples/editors/vscode.json").into(),
        entry: ENTRY.to_owned(),
        then: "In the panel of ACP Client, acpd is in the list of agents.",
        file: Some(SettingsFile { path: found.unwrap_or_else(|| settings("Code")), agents: "acp.agents" }),
    }
}

fn codecompanion() -> EditorSetup {
    EditorSetup {
        title: "Neovim with CodeCompanion",
        template: include_str!("../../../examples/editors/codecompanion.lua").into(),
        entry: ENTRY.to_owned(),
        then: "Put it where your init.lua sets up CodeCompanion. Then :CodeCompanionChat talks to acpd.",
        file: None,
    }
}

fn avante() -> EditorSetup {
    EditorSetup {
        title: "Neovim with avante.nvim",
        template: include_str!("../../../examples/editors/avante.lua").into(),
        entry: ENTRY.to_owned(),
        then: "Put it where your init.lua sets up avante. Then :AvanteAsk talks to acpd.",
        file: None,
    }
}

fn emacs() -> EditorSetup {
    EditorSetup {
        title: "Emacs with agent-shell",
        template: include_str!("../../../examples/editors/agent-shell.el").into(),
        entry: ENTRY.to_owned(),
        then: "Put it into your init file. Then M-x agent-shell offers acpd.",
        file: None,
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn every_text_names_the_program_once_and_json_is_json() {
        let places = Paths::find(None).unwrap();
        for setup in EditorName::value_variants().iter().flat_map(|editor| setups(*editor, &places)) {
            assert_eq!(setup.template.matches(PLACEHOLDER).count(), 1, "{}", setup.title);
            let text = setup.text(Path::new("/tmp/a \"b\"/acpd"));
            assert!(text.contains(r#""/tmp/a \"b\"/acpd""#), "{text}");
            if let Some(file) = setup.file {
                let settings: serde_json::Value = serde_json::from_str(&text).unwrap();
                assert!(settings[file.agents]["acpd"]["command"].is_string(), "{}", setup.title);
            }
        }
    }

    #[test]
    fn an_agent_gets_an_entry_of_its_own_in_every_text() {
        let places = Paths::find(None).unwrap();
        for setup in EditorName::value_variants().iter().flat_map(|editor| setups(*editor, &places)) {
            let setup = setup.for_agent("codex");
            let text = setup.text(Path::new("/bin/acpd"));
            assert!(text.contains("\"--agent\"") && text.contains("\"codex\""), "{text}");
            assert!(!text.contains("\"acpd\"") && !text.contains("acpd = ") && !text.contains("'acpd\n"), "{text}");
            if let Some(file) = setup.file {
                let settings: serde_json::Value = serde_json::from_str(&text).unwrap();
                let args = &settings[file.agents]["acpd-codex"]["args"];
                assert_eq!(*args, serde_json::json!(["acp", "--agent", "codex"]), "{}", setup.title);
            }
        }
    }

    #[test]
    fn every_example_is_an_editors_setup() {
        let places = Paths::find(None).unwrap();
        let all: Vec<EditorSetup> =
            EditorName::value_variants().iter().flat_map(|editor| setups(*editor, &places)).collect();
        for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/editors")).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(all.iter().any(|setup| setup.template == text), "no editor uses {}", path.display());
        }
    }
}
