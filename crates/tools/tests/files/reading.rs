//! Reading files, folders, images and notebooks.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::{Access, ToolContent};
use serde_json::json;

use crate::host::{call, plan};
use crate::project::Project;

#[tokio::test]
async fn a_file_is_read_with_line_numbers_and_its_title_names_the_lines() {
    let project = Project::new(&[("src/main.rs", "one\ntwo\nthree\n")]);
    assert_eq!(
        project.call("read_file", json!({"path": "src/main.rs"})).await,
        "     1\tone\n     2\ttwo\n     3\tthree\n"
    );
    let input = json!({"file_path": "src/main.rs", "offset": 2, "limit": 2});
    assert_eq!(project.title("read_file", input.clone()).await, "Read src/main.rs (lines 2-3)");
    assert_eq!(project.call("read_file", input).await, "     2\ttwo\n     3\tthree\n");
    let job = plan(&project.registry, &project.site, "read_file", json!({"path": "src/main.rs", "offset": 3})).await;
    let card = job.unwrap_or_else(|r| panic!("{}", r.reason)).card().clone();
    assert_eq!((card.title.as_str(), card.access), ("Read src/main.rs (from line 3)", Access::Free));
    assert_eq!((card.locations[0].path.clone(), card.locations[0].line), (project.path("src/main.rs"), Some(3)));
}

#[tokio::test]
async fn a_path_that_cannot_be_read_is_refused_with_advice() {
    let project = Project::new(&[("src/main.rs", "x"), ("Readme.md", "x")]);
    let cases = [
        (json!({"path": "src"}), "src is a folder, not a regular file"),
        (json!({"path": "src/main.ts"}), "src/main.ts does not exist; there is main.rs"),
        (json!({"path": "readme.md"}), "readme.md does not exist; there is Readme.md"),
        (json!({"path": "nowhere"}), "nowhere does not exist"),
        (json!({}), "bad input: missing field `path`"),
        (json!({"path": "a", "offset": []}), "bad input: `offset`: expected a whole number, got []"),
    ];
    for (input, reason) in cases {
        assert_eq!(project.refusal("read_file", input).await, reason);
    }
    let outside = project.refusal("read_file", json!({"path": "/etc/passwd"})).await;
    let roots = project.folder.path().display();
    assert_eq!(
        outside,
        format!("/etc/passwd is outside the session's folders ({roots}); file tools work inside those only")
    );
    let unknown = project.refusal("reed_file", json!({})).await;
    assert!(unknown.starts_with("there is no tool `reed_file`; the tools are read_file, list_files"), "{unknown}");
}

#[tokio::test]
async fn images_are_shown_and_other_binaries_described() {
    let project = Project::new(&[]);
    let dot = "iVBORw0KGgoAAAANSUhEUgAAAAMAAAACCAIAAAASFvFNAAAAC0lEQVR4nGNggAEAAA4AAa4nZ9oAAAAASUVORK5CYII=";
    let bytes = STANDARD.decode(dot).unwrap();
    fs::write(project.path("dot.png"), &bytes).unwrap();
    fs::write(project.path("torn.png"), &bytes[..30]).unwrap();
    let mut wide = bytes.clone();
    wide[16..20].copy_from_slice(&9000_u32.to_be_bytes());
    fs::write(project.path("wide.png"), wide).unwrap();
    fs::write(project.path("program"), b"\x7fELF\0\0\0").unwrap();
    let outcome = call(&project.registry, &project.site, "read_file", json!({"path": "dot.png"})).await;
    assert_eq!(outcome.content, [ToolContent::Image { data: dot.into(), mime: "image/png".into() }]);
    assert_eq!(outcome.text, format!("dot.png is an image (image/png, 3 x 2 pixels, {} bytes).", bytes.len()));
    let torn = project.call("read_file", json!({"path": "torn.png"})).await;
    assert_eq!(torn, "torn.png looks like an image (image/png, 30 bytes) but is damaged; it is not shown");
    let wide = project.call("read_file", json!({"path": "wide.png"})).await;
    // Its pixels are missing.
    assert!(wide.contains("9000 x 2 pixels") && wide.contains("; it cannot be scaled: "), "{wide}");
    let described = project.call("read_file", json!({"path": "program"})).await;
    assert_eq!(described, "program is an ELF executable or library, 7 bytes; it is not shown");
}

#[tokio::test]
async fn a_folder_is_listed_folders_first_and_whole() {
    let project = Project::new(&[("b.txt", "12345"), ("a/x", ""), (".hidden", ""), (".gitignore", "b.txt")]);
    std::os::unix::fs::symlink("b.txt", project.path("link")).unwrap();
    let listed = project.call("list_files", json!({})).await;
    assert_eq!(listed, "a/\n.gitignore  5 bytes\n.hidden  0 bytes\nb.txt  5 bytes\nlink -> b.txt\n");
    assert_eq!(project.refusal("list_files", json!({"path": "b.txt"})).await, "b.txt is a file, not a folder");
}

#[tokio::test]
async fn a_notebook_is_read_as_text_and_edited_as_it_is() {
    let notebook = r#"{"cells": [{"cell_type": "code", "source": ["x = 1\n", "x"], "outputs": []}], "metadata": {}}"#;
    let project = Project::new(&[("a.ipynb", notebook)]);
    let output = project.call("read_file", json!({"path": "a.ipynb"})).await;
    assert!(output.starts_with("     1\t# Cell 1 (code)\n     2\tx = 1\n     3\tx\n"), "{output}");
    let edit = json!({"path": "a.ipynb", "old_text": "x = 1", "new_text": "x = 2"});
    let reason = project.refusal("edit_file", edit.clone()).await;
    assert_eq!(reason, "a.ipynb exists and was not read; read it first with read_file");
    assert!(project.call("read_file", json!({"path": "a.ipynb", "raw": true})).await.contains("\"cells\""));
    project.call("edit_file", edit).await;
    assert!(project.text("a.ipynb").contains("x = 2"));
}
