//! Commands that are known well enough to be allowed by their first words.
//!
//! The test for a line here: no argument that it lets through makes the command run a program that the argument names,
//! write to a file that it names, or change what it does in another way that its first words do not tell. What `cargo` and
//! `go` build and test is the project's own code, which is what the person allows. If in doubt, leave it out: then the
//! exact command can still be allowed.

pub(super) struct Shape {
    /// The first words.
    pub(super) start: &'static str,
    pub(super) options: Options,
}

pub(super) enum Options {
    /// None of them does harm.
    Any,
    /// These do no harm. Others may, and so the command is not of this shape with them. `--` stands for
    /// whatever follows.
    Only(&'static str),
}

use Options::{Any, Only};

pub(super) const SHAPES: &[Shape] = &[
    any("basename"),
    any("cat"),
    any("cmp"),
    any("comm"),
    any("cut"),
    any("df"),
    any("diff"),
    any("dirname"),
    any("du"),
    any("echo"),
    any("false"),
    any("fgrep"),
    any("egrep"),
    any("grep"),
    any("head"),
    any("id"),
    any("jq"),
    any("ls"),
    any("md5sum"),
    any("nl"),
    any("printf"),
    any("ps"),
    any("pwd"),
    any("readlink"),
    any("realpath"),
    any("seq"),
    any("sha256sum"),
    any("stat"),
    any("tac"),
    any("tail"),
    any("test"),
    any("tr"),
    any("true"),
    any("uname"),
    any("wc"),
    any("which"),
    any("whoami"),
    only("find", FIND),
    only("fd", FD),
    only("rg", RG),
    only("sort", SORT),
    only("tree", TREE),
    only("git blame", GIT_LOG),
    only("git branch", "-a -r -v --all --remotes --list --show-current --contains --merged --no-merged"),
    only("git diff", GIT_LOG),
    only("git log", GIT_LOG),
    only("git ls-files", "-c -d -m -o -s -u -z --cached --deleted --modified --others --stage --exclude-standard --"),
    only("git rev-parse", "--show-toplevel --abbrev-ref --short --verify --is-inside-work-tree --git-dir"),
    only("git show", GIT_LOG),
    only("git status", "-s -b -u -z -v --short --branch --porcelain --ignored --untracked-files --long --"),
    only("cargo build", CARGO),
    only("cargo check", CARGO),
    only("cargo clippy", CARGO),
    only("cargo doc", CARGO),
    only("cargo fmt", "--all --check -p --package -v -q --verbose --quiet"),
    only("cargo metadata", "--no-deps --format-version --offline --locked --frozen"),
    only("cargo test", CARGO_TEST),
    only(
        "cargo tree",
        "-p -i -d -e --package --invert --duplicates --edges --depth --workspace --all-features --offline \
    --locked --frozen",
    ),
    only("go build", "-v -race -tags -n -x"),
    only("go test", "-v -race -tags -run -count -short -timeout -cover -bench -benchmem -failfast -parallel"),
    only("go vet", "-v -tags"),
];

const fn any(start: &'static str) -> Shape {
    Shape { start, options: Any }
}

const fn only(start: &'static str, options: &'static str) -> Shape {
    Shape { start, options: Only(options) }
}

/// No `-exec` and its like, no `-delete`, no `-fprint` and its like.
const FIND: &str = "-L -H -P -a -amin -and -atime -cmin -ctime -depth -empty -executable -follow -group -iname -ipath \
    -iregex -iwholename -links -ls -maxdepth -mindepth -mmin -mount -mtime -name -newer -not -o -or \
    -path -perm -print -print0 -prune -readable -regex -regextype -size -type -user -wholename -writable \
    -xdev";

/// No `-x` and no `-X`.
const FD: &str = "-H -I -a -d -e -g -i -l -p -s -t -E -L -0 --hidden --no-ignore --absolute-path --max-depth \
    --extension --glob --ignore-case --full-path --case-sensitive --type --exclude --follow";

/// No `--pre` and no `--hostname-bin`. An option that ripgrep learns later may be as bad, so this is a list of good ones.
const RG: &str = "-A -B -C -F -H -I -L -N -P -S -T -U -c -e -g -h -i -l -m -n -o -q -s -t -u -v -w -x --after-context \
    --before-context --context --count --count-matches --files --files-with-matches \
    --files-without-match --fixed-strings --glob --heading --hidden --iglob --ignore-case --json \
    --line-number --max-count --max-depth --multiline --no-heading --no-ignore --no-line-number \
    --only-matching --pcre2 --regexp --smart-case --sort --stats --type --type-not --with-filename \
    --word-regexp --";

/// No `-o`, no `-T` and no `--compress-program`.
const SORT: &str = "-b -c -d -f -g -h -i -k -M -m -n -r -s -t -u -V -z --key --reverse --numeric-sort --unique \
    --field-separator --human-numeric-sort --version-sort";

/// No `-o`.
const TREE: &str = "-a -d -f -h -i -l -s -D -F -I -L -P -C --dirsfirst --noreport --gitignore";

/// No `--output`, no `--ext-diff` and no `-O`.
const GIT_LOG: &str = "-1 -C -G -L -M -S -U -b -g -i -m -n -p -s -u -w -z --abbrev-commit --after --all --author --before \
    --branches --cached --date --decorate --diff-filter --exit-code --first-parent --follow --format \
    --graph --grep --merges --minimal --name-only --name-status --no-color --no-ext-diff --no-merges \
    --no-patch --no-renames --numstat --oneline --patch --pretty --quiet --reverse --shortstat --since \
    --staged --stat --summary --tags --unified --until --word-diff --max-count --porcelain --";

/// No `--config`, `--manifest-path`, `-Z`, `-C`, `--target-dir` or `--`, which gives options to the compiler.
const CARGO: &str = "-F -j -p -q -r -v --all --all-features --all-targets --bench --benches --bin --bins \
    --document-private-items --example --examples --exclude --features --frozen --jobs --keep-going \
    --lib --locked --message-format --no-default-features --no-deps --offline --package --profile \
    --quiet --release --test --tests --verbose --workspace";

/// The same, and `--`, after which the options are those of the project's own tests.
const CARGO_TEST: &str = "-F -j -p -q -r -v --all --all-features --all-targets --bench --benches --bin --bins --doc --example \
    --examples --exclude --features --frozen --jobs --keep-going --lib --locked --message-format \
    --no-default-features --no-fail-fast --no-run --offline --package --profile --quiet --release --test \
    --tests --verbose --workspace --";
