//! Compares the parser with a real bash that runs random commands. Its PATH contains only stubs,
//! which record how they were called, and some wrappers that can only run these stubs.
//!
//! The commands are the same in every run; `PROPTEST_CASES` sets their number.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use domain::Grant;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use super::plain;
use crate::grants;
use crate::rules::CommandRule;

/// The programs that bash finds. The last two represent a program that is not allowed, and one that
/// a rule denies.
const STUBS: [&str; 8] = ["ls", "cat", "git", "grep", "cargo", "sort", "evil", "wipe"];

/// Real programs that run others. They find only the stubs.
const WRAPPERS: [&str; 7] = ["env", "nice", "nohup", "setsid", "stdbuf", "timeout", "xargs"];

struct Stage {
    folder: tempfile::TempDir,
    bash: PathBuf,
}

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("bin");
        fs::create_dir(&bin).unwrap();
        fs::create_dir(folder.path().join("cwd")).unwrap();
        let find = |name: &str| {
            ["/bin", "/usr/bin"].iter().map(|place| Path::new(place).join(name)).find(|path| path.exists())
        };
        let bash = find("bash").expect("these tests need bash");
        let log = folder.path().join("log");
        for name in STUBS {
            let stub = format!(
                "#!{}\nline=${{0##*/}}\nfor word; do line=$line$'\\037'$word; done\nprintf '%s\\036' \"$line\" >> '{}'\n",
                bash.display(),
                log.display()
            );
            fs::write(bin.join(name), stub).unwrap();
            fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        for name in ["sh", "bash"] {
            symlink(&bash, bin.join(name)).unwrap();
        }
        for name in WRAPPERS {
            if let Some(real) = find(name) {
                symlink(real, bin.join(name)).unwrap();
            }
        }
        Self { folder, bash }
    }

    /// Runs a command in bash and returns how the stubs were called.
    fn run(&self, command: &str) -> Vec<Vec<String>> {
        let (log, cwd) = (self.folder.path().join("log"), self.folder.path().join("cwd"));
        fs::write(&log, "").unwrap();
        // A process that still runs holds the pipe open, so this also waits for background
        // processes. None of them should block; one that does is ended by the timeout.
        Command::new("timeout")
            .arg("20")
            .arg(&self.bash)
            .args(["-c", command])
            .current_dir(&cwd)
            .env_clear()
            .env("PATH", self.folder.path().join("bin"))
            .env("HOME", &cwd)
            .env("X", "evil")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let written = String::from_utf8_lossy(&fs::read(&log).unwrap()).into_owned();
        let calls = written.split_terminator('\u{1e}');
        calls.map(|call| call.split('\u{1f}').map(str::to_owned).collect()).collect()
    }

    /// Checks that the parser's conclusions about a command agree with what bash does.
    fn check(&self, command: &str) -> Result<(), String> {
        let ran = self.run(command);
        let words: Option<Vec<String>> = plain(command.trim_matches([' ', '\t', '\n']))
            .filter(|words| words.iter().all(|word| !word.names_files))
            .map(|words| words.into_iter().map(|word| word.text).collect());
        // A grant covers the command from whose words it was made, and nothing else may run.
        if let Some(Grant::Command(_)) = grants::always_grant(command) {
            let words = words.unwrap_or_default();
            let is_stub = words.first().is_some_and(|first| STUBS.contains(&first.as_str()));
            let expected: Vec<Vec<String>> = is_stub.then_some(words).into_iter().collect();
            if ran != expected {
                return Err(format!("an \"always\" answer covers {command:?}, which runs {ran:?}"));
            }
        }
        // The same holds for rules that allow.
        for allowed in ["ls", "test", "env ls", "printf *", "git *"] {
            let name = allowed.split(' ').next_back().filter(|name| *name != "*").unwrap_or("git");
            if CommandRule::of(allowed).allows(command) && ran.iter().any(|call| call[0] != name) {
                return Err(format!("a rule that allows `{allowed}` covers {command:?}, which runs {ran:?}"));
            }
        }
        // A denying rule must match, or possibly match, every program that ran.
        for call in &ran {
            let is_simple =
                |word: &&String| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
            let start = call.iter().take(2).take_while(is_simple).cloned().collect::<Vec<_>>().join(" ");
            if !CommandRule::of(&start).may_deny(command) {
                return Err(format!("a rule that denies `{start}` does not see it in {command:?}, which runs {ran:?}"));
            }
        }
        Ok(())
    }
}

fn programs() -> impl Strategy<Value = &'static str> {
    select(vec![
        "ls",
        "cat",
        "git status",
        "git log",
        "grep -n",
        "cargo test",
        "sort",
        "evil",
        "wipe -f",
        "echo",
        "true",
        "pwd",
        "l\\s",
        "'ls'",
        "\"git\" status",
        "time ls",
        "'time' ls",
        "\\time ls",
        "! ls",
        "command ls",
        "builtin echo",
        "exec ls",
        "eval",
        "sh -c",
        "bash -c",
        "bash -ec",
        "env",
        "env ls",
        "nice",
        "nohup",
        "setsid -w",
        "timeout 5",
        "xargs",
        "xargs ls",
        "trap",
        ".",
        "coproc",
        "{",
        "(",
        "if true; then",
        "for i in 1; do",
        "f() { wipe; }; f",
        "case x in x)",
        "time -p",
        "time -p !",
        "time -p if",
        "set -- a; for x do",
        "function f if",
        "function f {",
        "coproc C if",
        "shopt -s extglob\n:",
        "declare -A a; : $[",
        "a=(1 2)",
        "for x in 'a[$(evil)]'; do ((x)); done;",
        "read PS4 <<< '$(evil)'; set -x;",
        "BASH_CMDS[l]=$PWD/../bin/evil; l",
        "",
    ])
}

/// Builtins that take names of variables or arithmetic.
fn evaluators() -> impl Strategy<Value = &'static str> {
    select(vec![
        "test -v",
        "test -f x -o -v",
        "printf -v",
        "[ -v",
        "[[ -v",
        "[[ 1 -eq",
        "declare -i x=",
        "declare",
        "export",
        "let",
        "read",
        "unset",
        "test",
        "printf",
        "typeset -i",
        "local",
        "((",
    ])
}

fn arguments() -> impl Strategy<Value = &'static str> {
    select(vec![
        "x",
        "-n",
        "-f",
        "--",
        "'a b'",
        "\"a b\"",
        "a\\ b",
        "$X",
        "\"$X\"",
        "${X}",
        "$(evil)",
        "\"$(evil a)\"",
        "`evil`",
        "\"`evil`\"",
        "'$(evil)'",
        "\\$(evil)",
        "${X:-$(evil)}",
        "${a[$(evil)]}",
        "${a['b[$(evil)]']}",
        "$((a[$(evil)]))",
        "$((1))",
        "*",
        "~",
        "{evil,x}",
        "<(evil)",
        "> >(evil)",
        "evil",
        "'evil x'",
        "\"wipe -f\"",
        "'$X'",
        "a=b",
        "a=~",
        "#",
        "# evil",
        "EXIT",
        "-eq 1",
        "]",
        "]]",
        "))",
        "}",
        ")",
        "\\\nwipe",
        "$'wipe'",
        "$'\\x77ipe'",
        "$\"evil\"",
        "é",
        "'é'\\ x",
        "!",
        "!!",
        "HEAD~1",
        "> out",
        "2>&1",
        "< in",
        "<<< evil",
        "<<E\n$(evil)\nE\n",
        "<<'E'\n$(evil)\nE\n",
        "; fi",
        "; then :; fi",
        "; f",
        "<(ls)#",
        "@(a)#; wipe",
        "#; wipe",
        "a[ #] ]; wipe",
        "${!X}",
        "\"${X@P}\"",
        "\"${X#'\"'}\"; wipe; : \"}\" '}\" #'",
        "<<$X\nx\n$X\nwipe\n",
        "<<\"$X\"\nx\n$X\nwipe\n",
        "((x))",
        "; done",
        ";; esac",
        "-c",
        "-s",
    ])
}

/// Words that run something when they are evaluated as the name of a variable.
fn subscripts() -> impl Strategy<Value = &'static str> {
    select(vec![
        "$'a[\\x24\\x28evil\\x29]'",
        "$'a[\\140evil\\140]'",
        "'a[$(evil)]'",
        "\"a[\\$(evil)]\"",
        "a[\\$\\(evil\\)]",
        "'a[`evil`]'",
        "a[$(evil)]",
        "'a[${b[$(evil)]}]'",
        "x",
        "a[0]",
        "$'a[0]'",
        "'a[0]'",
    ])
}

fn separators() -> impl Strategy<Value = &'static str> {
    select(vec![" ", " ", " ", " ", "  ", "\t", "", "\n", "; ", " && ", " || ", " | ", " & ", "\r", "\u{a0}", "\u{b}"])
}

fn simple() -> impl Strategy<Value = String> {
    (programs(), prop::collection::vec((separators(), arguments()), 0..4)).prop_map(|(program, rest)| {
        rest.into_iter().fold(program.to_owned(), |text, (separator, word)| text + separator + word)
    })
}

fn evaluation() -> impl Strategy<Value = String> {
    let before = select(vec!["", "", "", "ls; ", "A=1 ", "x='a[$(evil)]'; "]);
    let after = select(vec!["", "", " x", " ]", " ]]", " -eq 1 ]]", " ))", "=1"]);
    (before, evaluators(), subscripts(), after)
        .prop_map(|(before, builtin, word, after)| format!("{before}{builtin} {word}{after}"))
}

fn commands() -> impl Strategy<Value = String> {
    let list = (simple(), separators(), simple()).prop_map(|(first, separator, second)| first + separator + &second);
    prop_oneof![3 => evaluation(), 4 => simple(), 3 => list]
}

#[test]
fn the_shell_reader_agrees_with_bash() {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(400);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let stage = Stage::new();
    let checked = runner.run(&commands(), |command| stage.check(&command).map_err(TestCaseError::fail));
    if let Err(error) = checked {
        panic!("{error}");
    }
}

/// Commands that the parser once got wrong.
#[test]
fn commands_that_were_misread_are_read_as_bash_reads_them() {
    let stage = Stage::new();
    let misread = [
        "test -v $'a[\\x24\\x28evil\\x29]'",
        "printf -v $'a[\\x24\\x28evil\\x29]' x",
        "test -v 'a[$(evil)]'",
        "[[ 'a[$(evil)]' -eq 1 ]]",
        "'time' ls",
        "x='a[$(evil)]'; (( x ))",
        "trap -- evil EXIT",
        "echo evil | (sh)",
        "ls | cat > >(bash -c wipe)",
        "bash -c -o pipefail 'wipe -f'",
        ". /dev/stdin <<< evil",
        "$'wipe' -f",
        "ls\u{a0}x",
        "time -p ! wipe",
        "time -p if wipe; then :; fi",
        "set -- a; for x do wipe; done",
        "set -- a; select x do wipe; break; done <<< 1",
        "function f while wipe; do break; done; f",
        "function f if wipe; then break; fi; f",
        "coproc C if wipe; then :; fi; wait",
        "echo <(true)#; wipe",
        "a=(1 2)#; wipe",
        "a=(1 2)#x; wipe",
        "shopt -s extglob\n: @(a)#; wipe",
        "declare -A a; a[ #]=1; wipe",
        "declare -A a; : $[ a[ #] ]; wipe",
        "cat <<$x\nhello\n$x\nwipe\n",
        "cat <<\"$x\"\nhello\n$x\nwipe\n",
        "echo $(coproc C case x in x) wipe;; esac)",
        "echo $(function f case x in x) wipe;; esac; f)",
        "echo \"${x#'\"'}\"; wipe; : \"}\" '}\" #'",
        "x='$(wipe)'; : \"${x@P}\"",
        "shopt -s expand_aliases\nBASH_ALIASES[lz]=wipe\nlz v",
        "BASH_CMDS[lz]=$PWD/../bin/wipe; lz v",
        "read x <<< 'a[$(wipe)]'; ((x)); :",
        "for x in 'a[$(wipe)]'; do ((x)); done; :",
        "f() { (( $1 )); }; f 'a[$(wipe)]'; :",
        "read x <<'E'\na[$(wipe)]\nE\n((x)); :",
        "for x in 'a[$(wipe)]'; do : ${!x}; done",
        "read PS4 <<< '$(wipe)'; set -x; :",
        "for PS4 in '$(wipe)'; do set -x; :; done",
        "env --split='wipe -f'",
    ];
    for command in misread {
        stage.check(command).unwrap();
    }
    // The test setup itself must record what runs.
    assert_eq!(stage.run("ls 'a b'; test -v $'a[\\x24\\x28evil\\x29]'"), [vec!["ls", "a b"], vec!["evil"]]);
}

/// A builtin that evaluates its arguments runs the command in a subscript, so no shape may begin
/// with one.
#[test]
fn no_grant_shape_begins_with_a_harmful_shell_word() {
    let output = Command::new("bash").args(["-c", "compgen -b; compgen -k"]).output().unwrap();
    let words = String::from_utf8(output.stdout).unwrap();
    assert!(words.contains("printf"), "{words}");
    let harmless = ["echo", "false", "pwd", "true"];
    for first in grants::programs_with_shapes() {
        assert!(harmless.contains(&first) || words.lines().all(|word| word != first), "{first}");
    }
}
