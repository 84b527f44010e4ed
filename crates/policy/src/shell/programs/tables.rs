//! Tables of the programs that run others, and where in their arguments those are.

/// Programs that run the program in their arguments, and how many operands come before it.
pub(super) const WRAPPERS: &[(&str, usize)] = &[
    ("sudo", 0),
    ("doas", 0),
    ("run0", 0),
    ("pkexec", 0),
    ("runuser", 0),
    ("gosu", 1),
    ("su-exec", 1),
    ("setpriv", 0),
    ("capsh", 0),
    ("env", 0),
    ("command", 0),
    ("builtin", 0),
    ("exec", 0),
    ("nohup", 0),
    ("nice", 0),
    ("ionice", 0),
    ("chrt", 1),
    ("choom", 0),
    ("prlimit", 0),
    ("taskset", 1),
    ("numactl", 0),
    ("setarch", 0),
    ("linux32", 0),
    ("linux64", 0),
    ("i386", 0),
    ("x86_64", 0),
    ("time", 0),
    ("timeout", 1),
    ("setsid", 0),
    ("stdbuf", 0),
    ("unbuffer", 0),
    ("strace", 0),
    ("ltrace", 0),
    ("gdb", 0),
    ("valgrind", 0),
    ("perf", 1),
    ("catchsegv", 0),
    ("hyperfine", 0),
    ("chroot", 1),
    ("unshare", 0),
    ("nsenter", 0),
    ("bwrap", 0),
    ("firejail", 0),
    ("proot", 0),
    ("fakeroot", 0),
    ("faketime", 1),
    ("eatmydata", 0),
    ("xvfb-run", 0),
    ("dbus-run-session", 0),
    ("dbus-launch", 0),
    ("torsocks", 0),
    ("proxychains", 0),
    ("proxychains4", 0),
    ("flock", 1),
    ("systemd-run", 0),
    ("systemd-inhibit", 0),
    ("flatpak-spawn", 0),
    ("start-stop-daemon", 0),
    ("daemonize", 0),
    ("setlock", 1),
    ("entr", 0),
    ("busybox", 0),
    ("toybox", 0),
    ("xargs", 0),
    ("parallel", 0),
    ("watch", 0),
    ("screen", 0),
    ("tmux", 1),
];

/// Programs that are wrappers with certain subcommands.
pub(super) const WRAPPING_SUBCOMMANDS: &[(&str, &[&str])] = &[
    ("poetry", &["run"]),
    ("uv", &["run"]),
    ("pipenv", &["run"]),
    ("bundle", &["exec"]),
    ("mise", &["exec", "x"]),
    ("asdf", &["exec"]),
    ("direnv", &["exec"]),
    ("toolbox", &["run"]),
    ("npm", &["exec", "x"]),
    ("pnpm", &["exec"]),
    ("yarn", &["exec"]),
    ("machinectl", &["shell"]),
];

/// Wrappers that start a shell if they get no program. The shell reads its input.
pub(super) const STARTS_SHELL: &[&str] =
    &["sudo", "doas", "run0", "pkexec", "runuser", "chroot", "unshare", "nsenter", "firejail", "fakeroot", "capsh"];

/// Wrappers with options that take several values, or with an optional operand. Any word may be the
/// program.
pub(super) const UNCERTAIN: &[&str] = &["bwrap", "setarch", "firejail", "proot", "nsenter", "capsh"];

/// Shells. They run the argument after `-c` as shell text, or else a script, or else their input.
pub(super) const SHELLS: &[&str] = &[
    "sh", "bash", "rbash", "dash", "ash", "zsh", "ksh", "mksh", "lksh", "yash", "posh", "osh", "fish", "csh", "tcsh",
    "nu", "elvish", "xonsh", "pwsh", "su", "script", "newgrp", "sg",
];

/// Programs that join their arguments and pass them to a shell. The first argument of `ssh` is the
/// host.
pub(super) const SHELL_TEXT_PROGRAMS: &[(&str, usize)] =
    &[("eval", 0), ("watch", 0), ("parallel", 0), ("ssh", 1), ("hyperfine", 0), ("tmux", 1)];

/// Programs that append arguments that the text does not show.
pub(super) const APPENDING_PROGRAMS: &[&str] = &["xargs", "parallel"];

/// Options whose value is a command: each program with its option letters and full option names.
pub(super) const COMMAND_OPTIONS: &[(&str, &str, &[&str])] = &[
    ("flock", "c", &["--command"]),
    ("runuser", "c", &["--command", "--session-command"]),
    ("capsh", "c", &[]),
    ("rsync", "e", &["--rsh", "--rsync-path"]),
    ("tar", "IF", TAR),
    ("gtar", "IF", TAR),
    ("bsdtar", "", &["--use-compress-program"]),
    ("scp", "S", &[]),
    ("sftp", "S", &[]),
    ("nc", "ec", &["--exec", "--sh-exec"]),
    ("ncat", "ec", &["--exec", "--sh-exec"]),
    ("man", "P", &["--pager", "--html", "--browser"]),
    ("sort", "", &["--compress-program"]),
    ("split", "", &["--filter"]),
    ("rg", "", &["--pre", "--hostname-bin"]),
    ("nix-shell", "", &["--run", "--command"]),
    ("xterm", "e", &[]),
    ("npm", "c", &["--call", "--script-shell"]),
    ("npx", "c", &["--call"]),
    ("hyperfine", "pcs", &["--prepare", "--setup", "--cleanup", "--conclude", "--shell"]),
    ("zip", "", &["--unzip-command", "-TT"]),
];

const TAR: &[&str] =
    &["--use-compress-program", "--to-command", "--rsh-command", "--info-script", "--new-volume-script"];

/// Options that are followed by a command with its arguments.
pub(super) const RUN_OPTIONS: &[(&str, &[&str])] = &[
    ("find", &["-exec", "-execdir", "-ok", "-okdir"]),
    ("fd", &["-x", "-X", "--exec", "--exec-batch"]),
    ("fdfind", &["-x", "-X", "--exec", "--exec-batch"]),
];

/// Builtins that expand subscripts in arguments that are names of variables or arithmetic.
pub(super) const EVALUATORS: &[&str] = &[
    "test",
    "[",
    "[[",
    "printf",
    "read",
    "declare",
    "typeset",
    "local",
    "export",
    "readonly",
    "let",
    "unset",
    "mapfile",
    "readarray",
    "wait",
    "getopts",
];

/// Variables whose value is a command that some program runs.
pub(super) const COMMAND_VARIABLES: &[&str] = &[
    "PAGER",
    "EDITOR",
    "VISUAL",
    "BROWSER",
    "MANPAGER",
    "SYSTEMD_PAGER",
    "SYSTEMD_EDITOR",
    "GIT_PAGER",
    "GIT_EDITOR",
    "GIT_SEQUENCE_EDITOR",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_ASKPASS",
    "GIT_EXTERNAL_DIFF",
    "GIT_PROXY_COMMAND",
    "SSH_ASKPASS",
    "SUDO_ASKPASS",
    "SUDO_EDITOR",
    "RSYNC_RSH",
    "CVS_RSH",
    "PROMPT_COMMAND",
    "RUSTC",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "CC",
    "CXX",
];

/// Variables that make programs load or run something that the command does not show. A trailing
/// `*` matches any rest.
pub(super) const HIDING_VARIABLES: &[&str] = &[
    "LD_PRELOAD",
    "LD_AUDIT",
    "LD_LIBRARY_PATH",
    "BASH_ENV",
    "ENV",
    "BASHOPTS",
    "SHELLOPTS",
    "PS4",
    "IFS",
    "LESSOPEN",
    "LESSCLOSE",
    "GIT_CONFIG*",
    "GIT_EXEC_PATH",
    "GIT_TEMPLATE_DIR",
    "GIT_DIR",
    "PERL5OPT",
    "PYTHONSTARTUP",
    "NODE_OPTIONS",
    "RUBYOPT",
    "JAVA_TOOL_OPTIONS",
    "MAKEFLAGS",
    "TAR_OPTIONS",
    "CARGO_TARGET_*",
    "CARGO_BUILD_*",
];

/// Git configuration keys that run nothing. A trailing `*` matches any rest.
pub(super) const HARMLESS_GIT_KEYS: &[&str] = &[
    "advice.*",
    "branch.*",
    "color.*",
    "column.*",
    "commit.gpgsign",
    "core.abbrev",
    "core.autocrlf",
    "core.eol",
    "core.filemode",
    "core.ignorecase",
    "core.longpaths",
    "core.quotepath",
    "core.safecrlf",
    "core.whitespace",
    "diff.algorithm",
    "diff.context",
    "diff.mnemonicprefix",
    "diff.noprefix",
    "diff.renames",
    "fetch.prune",
    "gc.auto",
    "init.defaultbranch",
    "log.*",
    "merge.conflictstyle",
    "pull.rebase",
    "pull.ff",
    "push.autosetupremote",
    "push.default",
    "rebase.autostash",
    "rebase.autosquash",
    "rerere.enabled",
    "safe.directory",
    "status.*",
    "tag.gpgsign",
    "user.email",
    "user.name",
    "user.signingkey",
];

/// Returns whether a name is in a list in which a trailing `*` matches any rest.
pub(super) fn is_in(list: &[&str], name: &str) -> bool {
    list.iter().any(|known| match known.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => *known == name,
    })
}
