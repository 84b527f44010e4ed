//! An example for each command, for its help and its man page.

use clap::{Command, CommandFactory};

use super::Cli;

/// The command, and lines that can be typed as they are.
const EXAMPLES: [(&str, &[&str]); 52] = [
    ("acpd", &["acpd ask \"What files are in this folder?\"", "acpd setup zed --write", "acpd doctor"]),
    ("acpd serve", &["acpd serve --set session.mode=safe"]),
    ("acpd acp", &["acpd acp"]),
    (
        "acpd ask",
        &[
            "acpd ask",
            "acpd ask \"Explain @src/main.rs\"",
            "acpd ask --image shot.png \"What is wrong in this picture?\"",
            "acpd ask --continue \"And now the tests\"",
            "acpd ask --resume",
            "acpd ask --json --mode read-only \"Summarise the changes\"",
        ],
    ),
    ("acpd ctl", &["acpd ctl sessions", "acpd ctl top", "acpd ctl status --json"]),
    (
        "acpd ctl sessions",
        &[
            "acpd ctl sessions",
            "acpd ctl sessions --all --here",
            "acpd ctl sessions --all --filter parser --quiet",
            "acpd ctl sessions --format \"{state} {folder} {title}\"",
        ],
    ),
    ("acpd ctl session", &["acpd ctl session 04097428cab8"]),
    ("acpd ctl top", &["acpd ctl top --every 5"]),
    ("acpd ctl connections", &["acpd ctl connections"]),
    ("acpd ctl status", &["acpd ctl status"]),
    ("acpd ctl tail", &["acpd ctl tail 04097428cab8"]),
    ("acpd ctl allow", &["acpd ctl allow", "acpd ctl allow 04097428cab8 --always"]),
    ("acpd ctl deny", &["acpd ctl deny 04097428cab8", "acpd ctl deny --reason \"Use git mv\""]),
    ("acpd ctl answer", &["acpd ctl answer --choice 2", "acpd ctl answer 04097428cab8 --text \"Only the parser\""]),
    ("acpd ctl cancel", &["acpd ctl cancel 04097428cab8"]),
    ("acpd ctl close", &["acpd ctl close 04097428cab8"]),
    ("acpd ctl delete", &["acpd ctl delete 04097428cab8"]),
    ("acpd ctl search", &["acpd ctl search parser", "acpd ctl search -n 5 out of memory"]),
    ("acpd ctl rename", &["acpd ctl rename 04097428cab8 Fix the parser"]),
    ("acpd ctl undo", &["acpd ctl undo 04097428cab8", "acpd ctl undo --redo 04097428cab8"]),
    ("acpd ctl mcp", &["acpd ctl mcp"]),
    ("acpd ctl permissions", &["acpd ctl permissions 04097428cab8"]),
    ("acpd ctl logs", &["acpd ctl logs --follow"]),
    ("acpd ctl gc", &["acpd ctl gc --older-than 30d", "acpd ctl gc --keep 100 --yes"]),
    ("acpd ctl export", &["acpd ctl export 04097428cab8 --markdown --output talk.md"]),
    ("acpd ctl import", &["acpd ctl import log.jsonl"]),
    ("acpd ctl reload", &["acpd ctl reload"]),
    ("acpd ctl restart", &["acpd ctl restart"]),
    ("acpd ctl stop", &["acpd ctl stop"]),
    ("acpd login", &["acpd login anthropic", "acpd login --agent codex", "acpd login --mcp tickets"]),
    ("acpd logout", &["acpd logout anthropic"]),
    ("acpd setup", &["acpd setup zed --write", "acpd setup neovim", "acpd setup zed --agent codex --write"]),
    ("acpd doctor", &["acpd doctor"]),
    ("acpd models", &["acpd models", "acpd models list sonnet", "acpd models default"]),
    ("acpd models default", &["acpd models default anthropic/claude-sonnet-4-5", "acpd models default --reset"]),
    ("acpd config", &["acpd config show --changed", "acpd config check"]),
    ("acpd models list", &["acpd models list sonnet"]),
    (
        "acpd models override",
        &[
            "acpd models override my-server/qwen3 window=65536 images=true --new",
            "acpd models override gpt-5.1 price.input=1.25 price.output=10",
            "acpd models override gpt-5.1 --reset",
        ],
    ),
    ("acpd models test", &["acpd models test"]),
    ("acpd agents", &["acpd agents", "acpd agents add codex", "acpd agents check codex"]),
    ("acpd agents list", &["acpd agents", "acpd agents list --json"]),
    (
        "acpd agents add",
        &[
            "acpd agents add codex",
            "acpd agents add --from agent.json",
            "acpd agents add mine -- /opt/mine/bin/agent --acp",
        ],
    ),
    ("acpd agents check", &["acpd agents check codex"]),
    ("acpd agents remove", &["acpd agents remove codex"]),
    ("acpd config show", &["acpd config show --changed"]),
    ("acpd config path", &["acpd config path"]),
    ("acpd config check", &["acpd config check .acpd/config.toml"]),
    ("acpd config defaults", &["acpd config defaults"]),
    ("acpd install", &["acpd install --dry-run"]),
    ("acpd uninstall", &["acpd uninstall"]),
    ("acpd completions", &["acpd completions bash"]),
    ("acpd man", &["acpd man --out target/man"]),
];

/// The command line with an example in the help of each command.
pub fn command() -> Command {
    with_examples(Cli::command(), "acpd")
}

/// The lines of a command, by its whole name.
pub fn of(name: &str) -> &'static [&'static str] {
    EXAMPLES.iter().find(|(known, _)| *known == name).map_or(&[], |(_, lines)| *lines)
}

fn with_examples(command: Command, name: &str) -> Command {
    let lines: String = of(name).iter().map(|line| format!("\n  {line}")).collect();
    let before = command.get_after_help().map(|help| format!("{help}\n\n")).unwrap_or_default();
    let command = if lines.is_empty() { command } else { command.after_help(format!("{before}Examples:{lines}")) };
    command.mut_subcommands(|sub| {
        let name = format!("{name} {}", sub.get_name());
        with_examples(sub, &name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of a line, as a shell divides them.
    fn words(line: &str) -> Vec<String> {
        let parts = line.split('"').enumerate().flat_map(|(at, part)| match at % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect::<Vec<_>>(),
            _ => vec![part.to_owned()],
        });
        parts.collect()
    }

    #[test]
    fn every_example_is_a_command_line_that_is_understood() {
        for (name, lines) in EXAMPLES {
            assert!(!lines.is_empty(), "{name}");
            for line in lines {
                command().try_get_matches_from(words(line)).unwrap_or_else(|error| panic!("{line}: {error}"));
            }
        }
    }

    #[test]
    fn the_help_of_every_command_has_an_example() {
        check(&command(), "acpd");
    }

    fn check(command: &Command, name: &str) {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert!(help.contains(&format!("\n  {name}")), "{name}");
        let subs = command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help");
        subs.for_each(|sub| check(sub, &format!("{name} {}", sub.get_name())));
    }
}
