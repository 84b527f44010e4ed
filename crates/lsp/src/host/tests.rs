//! Tests of the texts for the model, and of which folders and files are checked.

use super::*;
use crate::findings::Severity;

fn error(line: u32) -> Finding {
    Finding { line, column: 1, severity: Severity::Error, message: "no x".to_owned(), code: None }
}

#[test]
fn the_text_for_the_model_names_files_and_is_bounded() {
    let many = |count: u32| (0..count).map(error).collect::<Vec<_>>();
    let mut new = vec![(PathBuf::from("/p/a.py"), many(22))];
    new.extend((0..7).map(|other| (PathBuf::from(format!("/p/lib/{other}.py")), many(4))));
    let checked = Checked { new, all: vec![("/p/a.py".into(), Vec::new())], late: false };
    let text = describe_new("pyright", &checked, Path::new("/p")).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "[pyright reports new errors after this change:]");
    assert_eq!((lines[1], lines[21]), ("a.py:0:1: error: no x", "[and 2 more in a.py]"));
    assert_eq!((lines[22], lines[25]), ("lib/0.py:0:1: error: no x", "[and 1 more in lib/0.py]"));
    assert_eq!((lines.len(), *lines.last().unwrap()), (1 + 21 + 5 * 4 + 1, "[and errors in 2 other files]"));
    assert_eq!(describe_new("pyright", &Checked::default(), Path::new("/p")), None);
}

#[test]
fn a_program_is_found_on_an_absolute_path_only() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("server"), "").unwrap();
    let path = format!("relative:{}", folder.path().display());
    assert!(is_installed("server", Some(&path)));
    assert!(!is_installed("other", Some(&path)));
    assert!(!is_installed("server", None));
}
