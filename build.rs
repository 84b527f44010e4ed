//! Finds the commit that a release is built from, for `acpd --version`.
//!
//! It takes the first of these that exists: the variables `ACPD_COMMIT` and `ACPD_COMMIT_DATE`, the
//! file that `cargo package` puts into a crate, and git. Without any of them the version names no
//! commit. A build for development does not look, because every commit would compile the program
//! again.

#![allow(clippy::print_stdout, reason = "cargo reads instructions from stdout")]

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=ACPD_COMMIT");
    println!("cargo::rerun-if-env-changed=ACPD_COMMIT_DATE");
    let folder = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let origin = if is_release { of_release(Path::new(&folder)) } else { "development build".to_owned() };
    let origin = if origin.is_empty() { origin } else { format!(" ({origin})") };
    println!("cargo::rustc-env=ACPD_ORIGIN={origin}");
}

/// The commit and its date, as far as they are known.
pub(crate) fn of_release(folder: &Path) -> String {
    let commit = variable("ACPD_COMMIT");
    if !commit.is_empty() {
        return join(&commit, &variable("ACPD_COMMIT_DATE"));
    }
    let packaged = fs::read_to_string(folder.join(".cargo_vcs_info.json")).unwrap_or_default();
    if let Some(commit) = packaged_commit(&packaged) {
        return join(commit, &variable("ACPD_COMMIT_DATE"));
    }
    // A checkout of something else may surround a folder that is in no repository itself.
    if !folder.join(".git").exists() {
        return String::new();
    }
    let watched = ["HEAD", "logs/HEAD"].map(|file| git(folder, &["rev-parse", "--git-path", file]));
    // Cargo would run this each time for a path that does not exist.
    for path in watched.iter().filter(|path| !path.is_empty() && folder.join(path).exists()) {
        println!("cargo::rerun-if-changed={path}");
    }
    let last = git(folder, &["log", "-1", "--format=%H %cs"]);
    last.split_once(' ').map(|(commit, date)| join(commit, date)).unwrap_or_default()
}

/// The commit in the file that `cargo package` writes.
fn packaged_commit(file: &str) -> Option<&str> {
    let (_, rest) = file.split_once("\"sha1\"")?;
    rest.split('"').nth(1).filter(|commit| commit.chars().all(|letter| letter.is_ascii_hexdigit()))
}

/// The first twelve digits of a commit, and its date.
fn join(commit: &str, date: &str) -> String {
    let short = commit.get(..12).unwrap_or(commit);
    format!("{short} {date}").trim().to_owned()
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}

/// What git prints, or nothing if it cannot.
fn git(folder: &Path, args: &[&str]) -> String {
    let output = Command::new("git").arg("-C").arg(folder).args(args).output();
    let printed = output.ok().filter(|output| output.status.success()).map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&printed).trim().to_owned()
}
