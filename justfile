# Recipes for https://just.systems. Each runs one or two commands; a build does not need them.

# Lists the recipes.
default:
    @just --list

# Builds the optimised program.
build:
    cargo build --release

# Runs all tests that need only Rust.
test *args:
    cargo test --workspace {{args}}

# Runs only the layout rules.
tidy:
    cargo test --package acpd --test tidy

# Checks the formatting and the lints.
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings

# Checks licences, bans, sources and advisories of the dependencies; needs cargo-deny and the advisory database.
deny:
    cargo deny check

# Runs the tests with third-party programs, which it installs below target/.
integration *args:
    .ci/integration {{args}}

# Runs everything that CI runs.
ci:
    .ci/run

# Updates the snapshots. Read the diff before you commit it.
update *args:
    UPDATE_EXPECT=1 cargo test --workspace {{args}}

# Measures the figures of docs/performance.md and README.md, in about four minutes after the build.
figures:
    cargo bench --bench figures -- --write

# Runs all benches of the workspace.
bench *args:
    cargo bench --workspace {{args}}

# Kills a daemon under load 500 times (or as often as you ask) and checks each time that nothing is lost; takes minutes.
crash kills="500" seed="77":
    ACPD_KILLS={{kills}} ACPD_SEED={{seed}} cargo test --package acpd --test process -- random_kills:: --nocapture

# Draws the README's picture from a real run; needs tmux.
picture:
    cargo build --package acpd
    cargo run --quiet --example picture -- target/debug/acpd > docs/picture.svg

# Records the screens of `ask` and `ctl top` at two sizes, and `ask` in a pipe, from a real run; needs tmux.
screens:
    cargo build --package acpd
    cargo run --quiet --example picture -- target/debug/acpd --screens > docs/screens.md

# Makes every package from one build, in target/packages: tar.gz, .deb, npm, wheel, registry entry, SBOM, checksums.
package *args:
    packaging/build {{args}}

# Installs each package of `just package` in a clean place and sends one prompt there; needs root and debootstrap.
package-check:
    packaging/check

# Checks that every crate could be published.
package-crates:
    cargo package --workspace --exclude acpd-testkit --exclude acpd-conformance --no-verify

# Builds the crates' documentation.
doc *args:
    cargo doc --workspace --no-deps --document-private-items {{args}}

# Runs thirty small tasks with a configured model and writes a JSON report: `just eval --model ID --out report.json`.
eval *args:
    python3 -B tests/eval/run.py --acpd target/release/acpd {{args}}

# Checks acpd's own loop: all tasks of `just eval` with a scripted model, in a temporary home.
eval-loop:
    cargo build --package acpd
    python3 -B tests/eval/run.py --loop --acpd target/debug/acpd

# Proves that the tasks of `just eval` are sound: each hidden check fails before its solution and passes after it.
eval-check:
    python3 -B tests/eval/run.py --check
