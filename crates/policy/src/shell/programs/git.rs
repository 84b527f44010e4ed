//! What `git` runs: commands in configuration that its arguments set, and commands that its
//! subcommands take.

use super::tables::{HARMLESS_GIT_KEYS, is_in};
use super::{Programs, Word, options_with, read};

/// Options of git itself whose value is the next word.
const GLOBAL_VALUES: [&str; 6] = ["-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env"];

/// Options of subcommands whose value is a command.
const COMMANDS: [(&str, &str, &[&str]); 10] = [
    ("rebase", "x", &["--exec"]),
    ("difftool", "x", &["--extcmd"]),
    ("clone", "u", &["--upload-pack"]),
    ("fetch", "", &["--upload-pack"]),
    ("pull", "", &["--upload-pack"]),
    ("ls-remote", "", &["--upload-pack", "--exec"]),
    ("push", "", &["--receive-pack", "--exec"]),
    ("archive", "", &["--exec"]),
    ("grep", "O", &["--open-files-in-pager"]),
    ("send-email", "", &["--sendmail-cmd", "--to-cmd", "--cc-cmd", "--header-cmd"]),
];

/// Options of `git config` that take no value and do not decide what it does.
const CONFIG_FLAGS: [&str; 10] = [
    "--global",
    "--local",
    "--system",
    "--worktree",
    "--null",
    "-z",
    "--name-only",
    "--show-origin",
    "--show-scope",
    "--includes",
];

impl Programs {
    pub(super) fn add_git(&mut self, arguments: &[Word], depth: usize) {
        let mut index = 0;
        while let Some(word) = arguments.get(index).filter(|word| word.text.starts_with('-') && !word.expands) {
            let value = arguments.get(index + 1);
            match word.text.as_str() {
                "-c" => self.add_git_setting(value, depth),
                option if option.starts_with("--config-env") || option.starts_with("--exec-path=") => {
                    self.hides_some = true;
                }
                _ => {}
            }
            index += 1 + usize::from(GLOBAL_VALUES.contains(&word.text.as_str()));
        }
        let Some((subcommand, rest)) = arguments.get(index..).and_then(<[Word]>::split_first) else { return };
        for (name, letters, long) in COMMANDS {
            if name == subcommand.text {
                for value in options_with(rest, letters, long) {
                    self.add_text(std::slice::from_ref(&value), depth);
                }
            }
        }
        // An address may name a program as its transport.
        self.hides_some |=
            rest.iter().any(|word| word.text.starts_with("ext::") || is_short_for(&word.text, "--template", 3));
        match subcommand.text.as_str() {
            "config" => self.add_git_config(rest, depth),
            "clone" => {
                for setting in options_with(rest, "c", &["--config"]) {
                    self.add_git_setting(Some(&setting), depth);
                }
            }
            "bisect" if rest.first().is_some_and(|word| word.text == "run") => self.add(&rest[1..], false, depth + 1),
            "submodule" => {
                if let Some(at) = rest.iter().position(|word| word.text == "foreach") {
                    let text = rest[at + 1..].iter().skip_while(|word| word.text.starts_with('-'));
                    self.add_text(&text.cloned().collect::<Vec<_>>(), depth);
                }
            }
            "filter-branch" => {
                for (index, word) in rest.iter().enumerate() {
                    if word.text.ends_with("-filter") || word.text == "--setup" {
                        self.hides_some |= word.text == "--setup";
                        self.add_text(rest.get(index + 1..index + 2).unwrap_or_default(), depth);
                    }
                }
            }
            _ => {}
        }
    }

    /// Adds the command in a setting `key=value`, as after `git -c`.
    fn add_git_setting(&mut self, setting: Option<&Word>, depth: usize) {
        let Some(setting) = setting else { return };
        let (key, value) = setting.text.split_once('=').unwrap_or((&setting.text, ""));
        self.add_git_value(key, value, depth);
        self.hides_some |= setting.expands;
    }

    fn add_git_config(&mut self, arguments: &[Word], depth: usize) {
        let renames = |word: &Word| word.text == "rename-section" || is_short_for(&word.text, "--rename-section", 5);
        self.hides_some |= arguments.iter().any(renames);
        // There is at most one action, and a subcommand comes first.
        let is_subcommand = |word: &Word| ["get", "unset", "list"].contains(&word.text.as_str());
        let mut actions = arguments.iter().skip_while(|word| CONFIG_FLAGS.contains(&word.text.as_str()));
        let is_action = |word: &Word| {
            ["--get", "--unset", "--list"].iter().any(|start| word.text.starts_with(start)) || word.text == "-l"
        };
        if arguments.first().is_some_and(is_subcommand) || actions.next().is_some_and(is_action) {
            return;
        }
        // A single operand queries a value. The value of an option may look like the first operand,
        // so every word may be the key.
        let operands: Vec<&Word> = arguments.iter().filter(|word| !word.text.starts_with('-')).collect();
        for pair in operands.windows(2) {
            if pair[0].text.contains('.') {
                self.add_git_value(&pair[0].text, &pair[1].text, depth);
            }
            self.hides_some |= pair[0].expands;
        }
    }

    fn add_git_value(&mut self, key: &str, value: &str, depth: usize) {
        let key = key.to_ascii_lowercase();
        self.hides_some |= !is_in(HARMLESS_GIT_KEYS, &key);
        if let Some(text) = value.strip_prefix('!') {
            self.add_script(read(text), depth + 1);
        }
    }
}

/// Returns whether a word is a long option, possibly abbreviated to at least `least` letters, with
/// or without a value.
fn is_short_for(word: &str, option: &str, least: usize) -> bool {
    let name = word.split_once('=').map_or(word, |(name, _)| name);
    name.len() >= least && option.starts_with(name)
}
