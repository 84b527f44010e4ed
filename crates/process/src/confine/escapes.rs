//! Tests that no path leads out of the roots: a table of attempts, and a race.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use domain::{CallSite, Mode, SessionId, TurnId};
use rustix::fs::{CWD, RenameFlags, mknodat};
use tempfile::TempDir;

use super::*;
use crate::stop::StopFlag;

/// A working folder, a second root, and a secret next to them.
struct Fixture {
    folder: TempDir,
}

impl Fixture {
    fn new() -> Self {
        let place = Self { folder: TempDir::new().unwrap() };
        for folder in ["in/sub/deep", "in2", "extra", "out"] {
            fs::create_dir_all(place.path(folder)).unwrap();
        }
        for file in ["in/a", "in/sub/b", "in/sub/deep/c", "extra/e"] {
            fs::write(place.path(file), "inside").unwrap();
        }
        fs::write(place.path("out/secret"), "secret").unwrap();
        fs::write(place.path("in2/secret"), "secret").unwrap();
        place
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn text(&self, path: &str) -> String {
        self.path(path).to_str().unwrap().to_owned()
    }

    fn link(&self, at: &str, target: impl AsRef<Path>) {
        symlink(target, self.path(at)).unwrap();
    }

    fn roots(&self) -> Roots {
        open(&site(&self.path("in"), &[self.path("extra")]))
    }
}

fn site(cwd: &Path, extra: &[PathBuf]) -> CallSite {
    CallSite {
        session: SessionId::new(),
        turn: TurnId::new(),
        agent: None,
        cwd: cwd.to_owned(),
        extra_roots: extra.to_vec(),
        mode: Mode::Full,
        environment: Arc::default(),
        seen: Arc::default(),
        entered: Arc::default(),
        editor: None,
    }
}

fn open(site: &CallSite) -> Roots {
    Roots::open(site, &AccessLimits::default()).unwrap()
}

fn read(roots: &Roots, path: &str) -> String {
    match roots.find(path).and_then(|confined| confined.read()) {
        Ok(bytes) => String::from_utf8(bytes).unwrap(),
        Err(PathError::Outside { .. }) => "outside".to_owned(),
        Err(PathError::Missing { .. }) => "missing".to_owned(),
        Err(denial) => denial.to_string(),
    }
}

#[test]
fn paths_inside_are_read_and_paths_that_leave_are_refused() {
    let place = Fixture::new();
    place.link("in/to-a", "a");
    place.link("in/to-sub", "sub");
    place.link("in/sub/up", "../a");
    place.link("in/sub/far-up", "../../out/secret");
    place.link("in/around", "sub/../../in/a");
    place.link("in/absolute-in", place.path("in/sub/b"));
    place.link("in/absolute-extra", place.path("extra/e"));
    place.link("in/absolute-out", place.path("out/secret"));
    place.link("in/folder-out", place.path("out"));
    place.link("in/relative-out", "../out");
    place.link("in/by-extra", "../extra/e");
    place.link("in/chain", "chain2");
    place.link("in/chain2", "folder-out/secret");
    place.link("in/loop", "loop2");
    place.link("in/loop2", "loop");
    place.link("in/dangling", "nowhere");
    place.link("in/proc-root", format!("/proc/self/root{}", place.text("out/secret")));
    place.link("in/proc-cwd", "/proc/self/cwd");
    place.link("in/proc-fd", "/proc/self/fd");
    place.link("in/passwd", "/etc/passwd");
    place.link("alias", "in");
    let roots = place.roots();
    let too_many = |path: &str| format!("{path}: too many symbolic links");

    let cases = [
        ("a".to_owned(), "inside".to_owned()),
        ("./sub/./b".to_owned(), "inside".to_owned()),
        ("sub/../a".to_owned(), "inside".to_owned()),
        ("sub/deep/../../a".to_owned(), "inside".to_owned()),
        ("../in/a".to_owned(), "inside".to_owned()),
        ("../../../../../../../../etc/passwd".to_owned(), "outside".to_owned()),
        ("../out/secret".to_owned(), "outside".to_owned()),
        ("../in2/secret".to_owned(), "outside".to_owned()),
        ("sub/../../out/secret".to_owned(), "outside".to_owned()),
        ("../extra/e".to_owned(), "inside".to_owned()),
        (place.text("in/a"), "inside".to_owned()),
        (place.text("in/../in/a"), "inside".to_owned()),
        (place.text("out/../in/a"), "inside".to_owned()),
        (place.text("extra/e"), "inside".to_owned()),
        (place.text("in2/secret"), "outside".to_owned()),
        (place.text("in/../out/secret"), "outside".to_owned()),
        (place.text("alias/a"), "outside".to_owned()),
        ("/etc/passwd".to_owned(), "outside".to_owned()),
        ("//etc/passwd".to_owned(), "outside".to_owned()),
        ("/".to_owned(), "outside".to_owned()),
        ("..".to_owned(), "outside".to_owned()),
        ("~/.bashrc".to_owned(), "missing".to_owned()),
        ("to-a".to_owned(), "inside".to_owned()),
        ("to-sub/b".to_owned(), "inside".to_owned()),
        ("to-sub/../a".to_owned(), "inside".to_owned()),
        ("sub/up".to_owned(), "inside".to_owned()),
        ("sub/far-up".to_owned(), "outside".to_owned()),
        ("around".to_owned(), "inside".to_owned()),
        ("absolute-in".to_owned(), "inside".to_owned()),
        ("absolute-extra".to_owned(), "inside".to_owned()),
        ("absolute-out".to_owned(), "outside".to_owned()),
        ("folder-out/secret".to_owned(), "outside".to_owned()),
        ("folder-out/../a".to_owned(), "outside".to_owned()),
        ("relative-out/secret".to_owned(), "outside".to_owned()),
        ("by-extra".to_owned(), "inside".to_owned()),
        ("chain".to_owned(), "outside".to_owned()),
        ("loop".to_owned(), too_many("loop")),
        ("dangling".to_owned(), "missing".to_owned()),
        ("proc-root".to_owned(), "outside".to_owned()),
        ("proc-cwd/a".to_owned(), "outside".to_owned()),
        ("proc-fd/0".to_owned(), "outside".to_owned()),
        ("passwd".to_owned(), "outside".to_owned()),
        ("/proc/self/cwd/a".to_owned(), "outside".to_owned()),
        (format!("/proc/self/root{}", place.text("in/a")), "outside".to_owned()),
        ("a/b".to_owned(), "a/b cannot be reached: a is not a folder".to_owned()),
        ("nowhere/../../out/secret".to_owned(), "missing".to_owned()),
        ("a\0b".to_owned(), "a\u{fffd}b contains a NUL character".to_owned()),
        ("sub".to_owned(), "sub is a folder, not a regular file".to_owned()),
    ];
    for (path, expected) in cases {
        assert_eq!(read(&roots, &path), expected, "{path}");
    }
}

#[test]
fn a_root_behind_a_symlink_is_known_by_both_names() {
    let place = Fixture::new();
    place.link("alias", "in");
    let roots = open(&site(&place.path("alias"), &[]));
    assert_eq!(read(&roots, "a"), "inside");
    assert_eq!(read(&roots, &place.text("alias/a")), "inside");
    assert_eq!(read(&roots, &place.text("in/a")), "inside");
    let confined = roots.find(&place.text("in/sub/b")).unwrap();
    assert_eq!((confined.path, confined.shown.as_str()), (place.path("alias/sub/b"), "sub/b"));
    assert_eq!(confined.real, place.path("in/sub/b").canonicalize().unwrap());
}

#[test]
fn pipes_sockets_and_devices_are_refused_without_waiting() {
    let place = Fixture::new();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    mknodat(CWD, place.path("in/pipe"), FileType::Fifo, mode, 0).unwrap();
    let _listener = UnixListener::bind(place.path("in/socket")).unwrap();
    let roots = place.roots();
    assert_eq!(read(&roots, "pipe"), "pipe is a named pipe, not a regular file");
    assert_eq!(read(&roots, "socket"), "socket is a socket, not a regular file");
    let roots = open(&site(Path::new("/dev"), &[]));
    assert_eq!(read(&roots, "null"), "null is a device, not a regular file");
}

#[test]
fn proc_is_refused_even_when_the_root_is_everything() {
    let roots = open(&site(Path::new("/"), &[]));
    for path in ["/proc/self/environ", "proc/1/environ", "/proc/self/root/proc/self/environ", "proc/self/mem"] {
        let answer = read(&roots, path);
        assert!(answer.contains("/proc") || answer.contains("permission denied"), "{path}: {answer}");
        assert!(!answer.contains("PATH="), "{path}");
    }
}

#[test]
fn nothing_is_written_through_a_link_that_leaves() {
    let place = Fixture::new();
    place.link("in/folder-out", place.path("out"));
    place.link("in/file-out", place.path("out/new"));
    place.link("in/dangling", "fresh");
    let roots = place.roots();
    for path in ["folder-out/new", "file-out", "folder-out/x/y", "../out/new", "nowhere/../../out/new"] {
        assert!(roots.find(path).is_err(), "{path}");
    }
    assert_eq!(fs::read_dir(place.path("out")).unwrap().count(), 1);

    roots.find("dangling").unwrap().replace(b"through", None, &StopFlag::default()).unwrap();
    assert_eq!(fs::read_to_string(place.path("in/fresh")).unwrap(), "through");
    roots.find("x/y/z").unwrap().replace(b"deep", None, &StopFlag::default()).unwrap();
    assert_eq!(fs::read_to_string(place.path("in/x/y/z")).unwrap(), "deep");
}

#[test]
fn a_folder_that_turns_into_a_link_after_the_walk_is_not_followed() {
    let place = Fixture::new();
    let confined = place.roots().find("sub/b").unwrap();
    let fresh = place.roots().find("later/new").unwrap();
    fs::rename(place.path("in/sub"), place.path("in/moved")).unwrap();
    place.link("in/sub", place.path("out"));
    place.link("in/later", place.path("out"));
    fs::write(place.path("out/b"), "secret").unwrap();

    assert_eq!(confined.read().unwrap(), b"inside");
    assert!(fresh.replace(b"x", None, &StopFlag::default()).is_err());
    assert!(!place.path("out/new").exists());
}

#[test]
fn a_race_of_folder_and_link_never_leads_outside() {
    let place = Fixture::new();
    fs::write(place.path("out/b"), "secret").unwrap();
    place.link("in/swap", place.path("out"));
    let over = Arc::new(AtomicBool::new(false));
    let swapper = std::thread::spawn({
        let (over, sub, swap) = (Arc::clone(&over), place.path("in/sub"), place.path("in/swap"));
        move || {
            while !over.load(Ordering::Relaxed) {
                rustix::fs::renameat_with(CWD, &sub, CWD, &swap, RenameFlags::EXCHANGE).unwrap();
            }
        }
    });
    let roots = place.roots();
    let mut seen = std::collections::BTreeMap::new();
    let deadline = Instant::now() + Duration::from_secs(10);
    // Both outcomes of the race must occur, however the threads are scheduled.
    for round in 0.. {
        if (round >= 5000 && seen.len() >= 2) || Instant::now() > deadline {
            break;
        }
        *seen.entry(read(&roots, "sub/b")).or_insert(0) += 1;
    }
    over.store(true, Ordering::Relaxed);
    swapper.join().unwrap();
    assert!(!seen.contains_key("secret"), "{seen:?}");
    assert!(seen.contains_key("inside") && seen.contains_key("outside"), "{seen:?}");
}
