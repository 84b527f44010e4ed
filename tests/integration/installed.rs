//! Finds the files that `tests/integration/install` installs for the integration tests.

use std::path::{Path, PathBuf};

/// The path of an installed file below `target/integration`; a missing one fails the test.
#[track_caller]
pub(crate) fn installed(file: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/integration").join(file);
    assert!(path.exists(), "{} is missing: run tests/integration/install", path.display());
    path
}
