# Recipes for https://just.systems. Each is one or two cargo commands; nothing here is needed to build.

# What there is.
default:
    @just --list

# The program, optimised.
build:
    cargo build --release

# All tests.
test *args:
    cargo test --workspace {{args}}

# The layout rules alone.
tidy:
    cargo test --package acpd --test tidy

# Format and warnings.
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings

# Licences, bans, sources and advisories of the dependencies; needs cargo-deny and the advisory database.
deny:
    cargo deny check

# The tests with real MCP servers from npm and PyPI, which it installs below target/.
integration *args:
    .ci/integration {{args}}

# What CI runs.
ci:
    .ci/run

# Accept what the snapshots say now. Read the diff before you commit it.
update *args:
    UPDATE_EXPECT=1 cargo test --workspace {{args}}

# The figures of docs/performance.md and README.md, in about four minutes after the build.
figures:
    cargo bench --bench figures -- --write

# All benches of the workspace.
bench *args:
    cargo bench --workspace {{args}}

# Kills a daemon under load 500 times (or as often as you say) and checks every time that nothing is lost; takes minutes.
crash kills="500" seed="77":
    ACPD_KILLS={{kills}} ACPD_SEED={{seed}} cargo test --package acpd --test process -- random_kills:: --nocapture

# The README's picture, from a real run; needs tmux.
picture:
    cargo build --package acpd
    cargo run --quiet --example picture -- target/debug/acpd > docs/picture.svg

# The screens of `ask` and `ctl top` at two sizes, and `ask` in a pipe, from a real run; needs tmux.
screens:
    cargo build --package acpd
    cargo run --quiet --example picture -- target/debug/acpd --screens > docs/screens.md

# Every package from one build: tar.gz, .deb, npm, wheel, registry entry, SBOM and checksums, in target/packages.
package *args:
    packaging/build {{args}}

# Installs each package of `just package` into a clean place and asks one question there; needs root and debootstrap.
package-check:
    packaging/check

# Whether every crate could be published.
package-crates:
    cargo package --workspace --exclude acpd-testkit --exclude acpd-conformance --no-verify

# The crates' own pages.
doc *args:
    cargo doc --workspace --no-deps --document-private-items {{args}}

# Thirty small tasks with a configured model; writes a report as JSON. `just eval --model ID --out report.json`.
eval *args:
    python3 -B tests/eval/run.py --acpd target/release/acpd {{args}}

# Checks acpd's own loop: all tasks of `just eval` with a scripted model, in a temporary home.
eval-loop:
    cargo build --package acpd
    python3 -B tests/eval/run.py --loop --acpd target/debug/acpd

# Proves that the tasks of `just eval` are sound: each hidden check fails before its solution and passes after it.
eval-check:
    python3 -B tests/eval/run.py --check
