//! Commands that can be allowed by their first words.
//!
//! The condition for an entry: no argument that it accepts makes the command run a program that the
//! argument names, write to a file that the argument names, or do something else that its first
//! words do not show. What `cargo` and `go` build and test is the project's own code, which the
//! user knowingly allows. When in doubt, do not add an entry: the exact command can still be
//! allowed.
//!
//! Shell builtins that evaluate their arguments (`test -v`, `printf -v`, `read`, `declare`, `let`,
//! `eval` and others) must not be listed: where they expect the name of a variable, a subscript
//! such as `a[$(program)]` runs a program.

pub(super) struct Shape {
    /// The first words.
    pub(super) start: &'static str,
    pub(super) options: Options,
    pub(super) operands: Operands,
    /// What may follow `--`.
    pub(super) rest: Rest,
    /// Text that no argument may contain.
    pub(super) never: Option<&'static str>,
}

pub(super) enum Options {
    /// Any option is harmless.
    Any,
    /// Only these options are known to be harmless. With any other option the command does not have
    /// this shape.
    Only(&'static str),
}

/// Arguments that are not options, and the values of options.
pub(super) enum Operands {
    Any,
    /// No operands, because one would change what the command does.
    None,
    /// Only operands inside the working folder.
    Inside,
}

/// What may follow `--`.
pub(super) enum Rest {
    /// `--` is not accepted.
    Nothing,
    /// Operands, even if they begin with `-`.
    Operands,
    /// Only these options, which go to another program.
    Options(&'static str),
}

use Options::{Any, Only};

pub(super) const SHAPES: &[Shape] = &[
    any("basename"),
    any("cat"),
    any("cmp"),
    any("comm"),
    any("cut"),
    any("df"),
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
    any("pwd"),
    any("readlink"),
    any("realpath"),
    any("seq"),
    any("sha256sum"),
    any("stat"),
    any("tac"),
    any("tail"),
    any("tr"),
    any("true"),
    any("uname"),
    any("wc"),
    any("which"),
    any("whoami"),
    only("diff", DIFF).with_rest(),
    only("find", FIND),
    only("fd", FD),
    only("rg", RG).with_rest(),
    only("sort", SORT),
    only("tree", TREE),
    // With `e` among the letters, `ps` shows the environment of other processes.
    only("ps aux", "").alone(),
    only("ps -ef", "").alone(),
    only("git blame", GIT_LOG).with_rest(),
    // An operand would create a branch.
    only("git branch", "-a -r -v --all --remotes --list --show-current --merged --no-merged").alone(),
    // The placeholders for signatures run gpg.
    only("git diff", GIT_LOG).with_rest().never("%G"),
    only("git log", GIT_LOG).with_rest().never("%G"),
    only("git ls-files", "-c -d -m -o -s -u -z --cached --deleted --modified --others --stage --exclude-standard")
        .with_rest(),
    only("git rev-parse", "--show-toplevel --abbrev-ref --short --verify --is-inside-work-tree --git-dir"),
    only("git show", GIT_LOG).with_rest().never("%G"),
    only("git status", "-s -b -u -z -v --short --branch --porcelain --ignored --untracked-files --long").with_rest(),
    only("cargo build", CARGO),
    only("cargo check", CARGO),
    only("cargo clippy", CARGO),
    only("cargo doc", CARGO),
    only("cargo fmt", "--all --check -p --package -v -q --verbose --quiet"),
    only("cargo metadata", "--no-deps --format-version --offline --locked --frozen"),
    only("cargo test", CARGO_TEST).with_options_of_tests(),
    only(
        "cargo tree",
        "-p -i -d -e --package --invert --duplicates --edges --depth --workspace --all-features --offline \
    --locked --frozen",
    ),
    only("go build", "-v -race -tags -n -x").inside(),
    only("go test", "-v -race -tags -run -count -short -timeout -cover -bench -benchmem -failfast -parallel").inside(),
    only("go vet", "-v -tags").inside(),
];

const fn any(start: &'static str) -> Shape {
    Shape { start, options: Any, operands: Operands::Any, rest: Rest::Operands, never: None }
}

const fn only(start: &'static str, options: &'static str) -> Shape {
    Shape { start, options: Only(options), operands: Operands::Any, rest: Rest::Nothing, never: None }
}

impl Shape {
    const fn alone(self) -> Self {
        Self { operands: Operands::None, ..self }
    }

    const fn inside(self) -> Self {
        Self { operands: Operands::Inside, ..self }
    }

    const fn with_rest(self) -> Self {
        Self { rest: Rest::Operands, ..self }
    }

    const fn with_options_of_tests(self) -> Self {
        Self { rest: Rest::Options(LIBTEST), ..self }
    }

    const fn never(self, text: &'static str) -> Self {
        Self { never: Some(text), ..self }
    }
}

/// Excludes `-l`, which runs `pr`.
const DIFF: &str = "-a -b -B -c -i -N -q -r -s -u -U -w -x -y --brief --color --ignore-all-space --ignore-blank-lines \
    --ignore-case --ignore-space-change --new-file --recursive --report-identical-files --side-by-side \
    --strip-trailing-cr --suppress-common-lines --text --unified --width";

/// Excludes `-exec`, `-delete`, `-fprint` and their variants.
const FIND: &str = "-L -H -P -a -amin -and -atime -cmin -ctime -depth -empty -executable -follow -group -iname -ipath \
    -iregex -iwholename -links -ls -maxdepth -mindepth -mmin -mount -mtime -name -newer -not -o -or \
    -path -perm -print -print0 -prune -readable -regex -regextype -size -type -user -wholename -writable \
    -xdev";

/// Excludes `-x` and `-X`, and `-l`, which runs `ls`.
const FD: &str = "-H -I -a -d -e -g -i -p -s -t -E -L -0 --hidden --no-ignore --absolute-path --max-depth \
    --extension --glob --ignore-case --full-path --case-sensitive --type --exclude --follow";

/// Excludes `--pre` and `--hostname-bin`. Lists the harmless options, because a later version of
/// ripgrep may add another harmful one.
const RG: &str = "-A -B -C -F -H -I -L -N -P -S -T -U -c -e -g -h -i -l -m -n -o -q -s -t -u -v -w -x --after-context \
    --before-context --context --count --count-matches --files --files-with-matches \
    --files-without-match --fixed-strings --glob --heading --hidden --iglob --ignore-case --json \
    --line-number --max-count --max-depth --multiline --no-heading --no-ignore --no-line-number \
    --only-matching --pcre2 --regexp --smart-case --sort --stats --type --type-not --with-filename \
    --word-regexp";

/// Excludes `-o`, `-T` and `--compress-program`.
const SORT: &str = "-b -c -d -f -g -h -i -k -M -m -n -r -s -t -u -V -z --key --reverse --numeric-sort --unique \
    --field-separator --human-numeric-sort --version-sort";

/// Excludes `-o`.
const TREE: &str = "-a -d -f -h -i -l -s -D -F -I -L -P -C --dirsfirst --noreport --gitignore";

/// Excludes `--output`, `--ext-diff` and `-O`.
const GIT_LOG: &str = "-1 -C -G -L -M -S -U -b -g -i -m -n -p -s -u -w -z --abbrev-commit --after --all --author --before \
    --branches --cached --date --decorate --diff-filter --exit-code --first-parent --follow --format \
    --graph --grep --merges --minimal --name-only --name-status --no-color --no-ext-diff --no-merges \
    --no-patch --no-renames --numstat --oneline --patch --pretty --quiet --reverse --shortstat --since \
    --staged --stat --summary --tags --unified --until --word-diff --max-count --porcelain";

/// Excludes `--config`, `--manifest-path`, `-Z`, `-C`, `--target-dir`, and `--`, which passes
/// options to the compiler.
const CARGO: &str = "-F -j -p -q -r -v --all --all-features --all-targets --bench --benches --bin --bins \
    --document-private-items --example --examples --exclude --features --frozen --jobs --keep-going \
    --lib --locked --message-format --no-default-features --no-deps --offline --package --profile \
    --quiet --release --test --tests --verbose --workspace";

/// The options of `CARGO`, and those that only tests have.
const CARGO_TEST: &str = "-F -j -p -q -r -v --all --all-features --all-targets --bench --benches --bin --bins --doc --example \
    --examples --exclude --features --frozen --jobs --keep-going --lib --locked --message-format \
    --no-default-features --no-fail-fast --no-run --offline --package --profile --quiet --release --test \
    --tests --verbose --workspace";

/// Options of the test binaries. Excludes `--logfile`, which names a file to write.
const LIBTEST: &str = "-q --color --exact --format --ignored --include-ignored --list --no-capture --nocapture --quiet \
    --report-time --show-output --shuffle --shuffle-seed --skip --test-threads";
