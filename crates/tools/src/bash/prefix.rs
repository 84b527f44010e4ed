//! What "always allow" would cover for a command: its leading words, or nothing when those do not say what it does.
//!
//! This reads shell text without understanding it, so every doubt means None: then the person is asked each time.

/// Programs whose first argument is what they do.
const WITH_SUBCOMMANDS: [&str; 34] = [
    "apt",
    "brew",
    "bun",
    "bundle",
    "cargo",
    "composer",
    "conda",
    "deno",
    "docker",
    "dotnet",
    "gh",
    "git",
    "go",
    "gradle",
    "helm",
    "jj",
    "just",
    "kubectl",
    "make",
    "mix",
    "mvn",
    "nix",
    "npm",
    "pip",
    "pip3",
    "pnpm",
    "podman",
    "poetry",
    "rake",
    "rustup",
    "systemctl",
    "terraform",
    "uv",
    "yarn",
];

/// Programs that run whatever their arguments say, so that their name says nothing. Without version numbers.
const RUNNERS: [&str; 58] = [
    ".",
    "ash",
    "at",
    "awk",
    "bash",
    "batch",
    "builtin",
    "bunx",
    "busybox",
    "chroot",
    "command",
    "coproc",
    "crontab",
    "csh",
    "dash",
    "doas",
    "env",
    "eval",
    "exec",
    "expect",
    "fish",
    "flock",
    "gawk",
    "gdb",
    "ionice",
    "ksh",
    "lua",
    "nice",
    "node",
    "nohup",
    "npx",
    "parallel",
    "perl",
    "php",
    "pkexec",
    "pypy",
    "python",
    "ruby",
    "runuser",
    "screen",
    "script",
    "setsid",
    "sh",
    "source",
    "ssh",
    "stdbuf",
    "strace",
    "su",
    "sudo",
    "systemd-run",
    "time",
    "timeout",
    "tmux",
    "trap",
    "unshare",
    "watch",
    "xargs",
    "zsh",
];

/// Arguments of `find` that do more than find.
const FIND_ACTIONS: [&str; 8] = ["-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprintf", "-fls"];

/// No separators, pipes, substitutions, redirections and groups. Quotes do not help: telling them apart is the shell's.
pub(crate) fn is_one_command(command: &str) -> bool {
    !command.chars().any(|c| ";&|<>`(){}\n\r\0".contains(c))
}

pub(super) fn of(command: &str) -> Option<Vec<String>> {
    if !is_one_command(command) {
        return None;
    }
    let mut words = command.split_ascii_whitespace();
    let program = words.next().filter(|word| is_plain(word))?;
    let name = program.rsplit('/').next().unwrap_or(program);
    if RUNNERS.contains(&name) || RUNNERS.contains(&name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.')) {
        return None;
    }
    if name == "find" && words.clone().any(|word| FIND_ACTIONS.contains(&word)) {
        return None;
    }
    if !WITH_SUBCOMMANDS.contains(&name) {
        return Some(vec![program.to_owned()]);
    }
    // An option before the subcommand, such as git's `-c`, may change what the subcommand does; and the bare program
    // would cover all its subcommands.
    let subcommand = words.next().filter(|word| !word.starts_with('-') && is_plain(word))?;
    Some(vec![program.to_owned(), subcommand.to_owned()])
}

/// Nothing that the shell would expand, unquote or take for an assignment.
fn is_plain(word: &str) -> bool {
    word.chars().all(|c| c.is_ascii_alphanumeric() || "_-./:+@,".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_is_the_program_and_its_subcommand() {
        let cases = [
            ("ls -la src", "ls"),
            ("git status", "git status"),
            ("git push --force origin main", "git push"),
            ("cargo test -p tools", "cargo test"),
            ("npm run", "npm run"),
            ("/usr/bin/git push", "/usr/bin/git push"),
            ("./build.sh --release", "./build.sh"),
            ("  rg pattern  ", "rg"),
            ("find . -name x", "find"),
        ];
        for (command, prefix) in cases {
            assert_eq!(of(command).map(|words| words.join(" ")).as_deref(), Some(prefix), "{command}");
        }
    }

    #[test]
    fn a_command_whose_first_words_do_not_tell_has_no_prefix() {
        let cases = [
            "git status; rm -rf /",
            "git status && rm x",
            "git status & rm x",
            "cat x | sh",
            "echo $(rm x)",
            "echo `rm x`",
            "echo x > /etc/passwd",
            "cat < x",
            "ls\nrm x",
            "ls\rrm x",
            "(rm x)",
            "FOO=bar git status",
            "$CMD x",
            "\"git\" status",
            "g\\it status",
            "git -c core.pager=x log",
            "git $X",
            "make",
            "sudo ls",
            "/usr/bin/env ls",
            "bash x.sh",
            "/usr/bin/git",
            "python3.11 x.py",
            "xargs rm",
            "find . -exec rm x",
            "find . -delete",
            "",
            "   ",
        ];
        for command in cases {
            assert_eq!(of(command), None, "{command}");
        }
    }
}
