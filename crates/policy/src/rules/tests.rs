//! Tests of rules and their verdicts about calls.

use domain::Access;
use domain::tool::Location;
use serde_json::json;

use super::*;

fn rules(allow: &[&str], ask: &[&str], deny: &[&str]) -> Rules {
    serde_json::from_value(json!({"allow": allow, "ask": ask, "deny": deny})).unwrap()
}

fn card(tool: &str, kind: ToolKind, path: &str, preview: &str) -> ToolCard {
    ToolCard {
        tool: tool.to_owned(),
        title: String::new(),
        kind,
        locations: vec![Location { path: path.into(), line: None }],
        input: json!({}),
        preview: vec![ToolContent::text(preview)],
        access: Access::Free,
    }
}

fn bash(command: &str) -> ToolCard {
    card("bash", ToolKind::Execute, "/", command)
}

fn edit(path: &str) -> ToolCard {
    card("edit_file", ToolKind::Edit, path, "")
}

fn fetch(url: &str) -> ToolCard {
    card("web_fetch", ToolKind::Fetch, "/", url)
}

#[test]
fn denying_wins_over_asking_and_asking_over_allowing() {
    let rules = rules(&["bash"], &["bash(git)"], &["bash(git push)"]);
    assert_eq!(rules.verdict(&bash("ls"), None), Some(Verdict::Run));
    assert_eq!(rules.verdict(&bash("git status"), None), Some(Verdict::Ask));
    assert_eq!(rules.verdict(&bash("git push --force"), None), Some(Verdict::Deny));
    assert_eq!(rules.verdict(&edit("/project/a"), None), None);
}

#[test]
fn a_call_that_nobody_can_be_asked_about_is_denied_in_doubt() {
    let rules = rules(&["bash"], &["bash(git push)"], &["bash(rm)", "edit(/real/docs)"]);
    for command in ["rm a", "ls && rm a", "$(echo rm) a", "R=rm; $R a"] {
        assert!(rules.may_deny(&bash(command), None), "{command}");
    }
    for command in ["ls", "git push"] {
        assert!(!rules.may_deny(&bash(command), None), "{command}");
    }
    assert!(rules.may_deny(&edit("/link/docs/a"), Some(&edit("/real/docs/a"))));
    assert!(!rules.may_deny(&edit("/link/docs/a"), None));
}

#[test]
fn a_command_that_names_a_file_which_may_not_be_read_asks() {
    let rules = rules(&["bash(cat)", "bash(ls)"], &["read(*.key)"], &["read(.env)", "read(secrets)", "edit(locked)"]);
    for command in [
        "cat .env",
        "cat ./app/.env",
        "cat '.e'nv",
        "cat -- /work/.env",
        "grep -f.env x < .env",
        "head --lines=3 secrets/a/b",
        "curl -d @.env localhost",
        "ls a.key",
    ] {
        assert_eq!(rules.verdict(&bash(command), None), Some(Verdict::Ask), "{command}");
    }
    for command in ["cat .envrc", "cat x.env", "ls", "cat locked", "ls secrets2"] {
        assert_eq!(rules.verdict(&bash(command), None), Some(Verdict::Run), "{command}");
    }
}

#[test]
fn a_chain_needs_every_part_allowed_and_any_part_denies_it() {
    let allow = rules(&["bash(git status)", "bash(cargo *)"], &[], &[]);
    assert_eq!(allow.verdict(&bash("git status --short"), None), Some(Verdict::Run));
    assert_eq!(allow.verdict(&bash("cargo test"), None), Some(Verdict::Run));
    for command in ["git status; rm x", "cargo test && rm x", "git status $(rm x)", "cargo test > /etc/x", "git"] {
        assert_eq!(allow.verdict(&bash(command), None), None, "{command}");
    }
    assert_eq!(rules(&["bash(*)"], &[], &[]).verdict(&bash("a; b"), None), Some(Verdict::Run));
    let deny = rules(&[], &[], &["bash(rm -rf)", "bash(*--force*)"]);
    for command in ["ls; rm -rf x", "A=1 /bin/rm -rf x", "echo $(rm -rf x)", "git push --force"] {
        assert_eq!(deny.verdict(&bash(command), None), Some(Verdict::Deny), "{command}");
    }
    assert_eq!(deny.verdict(&bash("rm x"), None), None);
    assert_eq!(deny.verdict(&bash("$PROGRAM x"), None), Some(Verdict::Ask), "it may be what is denied");
}

#[test]
fn paths_fit_at_any_depth_and_folders_cover_what_is_in_them() {
    let rules = rules(&["edit(src/**)", "edit(/project/docs)"], &[], &["*_file(.env)", "edit(*.lock)"]);
    let cases = [
        ("/project/src/a/b.rs", Some(Verdict::Run)),
        ("/project/docs/x/y.md", Some(Verdict::Run)),
        ("/other/docs/x.md", None),
        ("/project/src/.env", Some(Verdict::Deny)),
        ("/project/Cargo.lock", Some(Verdict::Deny)),
        ("/project/srcs/a", None),
    ];
    for (path, verdict) in cases {
        assert_eq!(rules.verdict(&edit(path), None), verdict, "{path}");
    }
    assert_eq!(rules.verdict(&card("read_file", ToolKind::Read, "/project/.env", ""), None), Some(Verdict::Deny));
}

#[test]
fn a_file_that_may_not_be_read_is_not_moved() {
    let rules = rules(&["move"], &["read_file(*.pem)"], &["read(.env)"]);
    let moving = |from: &str, to: &str| {
        let mut card = card("move_file", ToolKind::Move, from, "");
        card.locations.push(Location { path: to.into(), line: None });
        rules.verdict(&card, None)
    };
    assert_eq!(moving("/project/.env", "/project/notes.txt"), Some(Verdict::Deny));
    assert_eq!(moving("/project/a.pem", "/project/notes.txt"), Some(Verdict::Ask));
    assert_eq!(moving("/project/notes.txt", "/project/.env"), Some(Verdict::Run));
}

#[test]
fn a_rule_denies_a_file_by_either_of_its_names_and_allows_it_only_by_both() {
    let rules =
        rules(&["edit(/link/src)", "edit(notes/**)", "edit(/real/src)"], &["edit(/link/ask)"], &["edit(/real/docs)"]);
    let edits = |given: &str, real: &str| rules.verdict(&edit(given), Some(&edit(real)));
    assert_eq!(edits("/link/docs/a", "/real/docs/a"), Some(Verdict::Deny));
    assert_eq!(edits("/real/docs/a", "/other/a"), Some(Verdict::Deny));
    assert_eq!(edits("/link/ask/a", "/real/ask/a"), Some(Verdict::Ask));
    assert_eq!(edits("/link/src/a", "/real/src/a"), Some(Verdict::Run), "each name has its rule");
    assert_eq!(edits("/link/notes/a", "/real/notes/a"), Some(Verdict::Run), "a relative pattern fits both");
    assert_eq!(edits("/link/notes/a", "/real/secret/a"), None, "a link out of what is allowed");
    assert_eq!(edits("/link/tests/a", "/real/notes/a"), None, "a link into what is allowed");
}

#[test]
fn the_rules_of_a_project_count_however_its_folder_is_reached() {
    // A file system in which `/link` is a symlink to `/real`.
    let real_path = |path: &Path| match path.strip_prefix("/link") {
        Ok(inside) => Path::new("/real").join(inside),
        Err(_) => path.to_owned(),
    };
    for folder in ["/real/", "/link/"] {
        let mut all: Permissions =
            serde_json::from_value(json!({"project": [{"folder": folder, "deny": ["bash"]}]})).unwrap();
        all.resolve(|folder| Some(real_path(folder)));
        for cwd in ["/real/sub", "/link/sub"].map(Path::new) {
            let rules = all.within(cwd, &real_path(cwd));
            assert_eq!(rules.texts().deny, ["bash"], "{} in {folder}", cwd.display());
        }
        let other = Path::new("/elsewhere");
        assert!(all.within(other, other).texts().deny.is_empty());
    }
}

#[test]
fn hosts_and_names_of_tools_are_globs() {
    let rules = rules(&["web_fetch(docs.rs)", "mcp__github__*"], &[], &["fetch(*.example.com)"]);
    assert_eq!(rules.verdict(&fetch("https://DOCS.rs/serde"), None), Some(Verdict::Run));
    assert_eq!(rules.verdict(&fetch("https://evil.example/docs.rs"), None), None);
    assert_eq!(rules.verdict(&fetch("https://a.example.com:8080/x"), None), Some(Verdict::Deny));
    assert_eq!(rules.verdict(&card("mcp__github__search", ToolKind::Other, "/", ""), None), Some(Verdict::Run));
    assert_eq!(rules.verdict(&card("mcp__gitlab__search", ToolKind::Other, "/", ""), None), None);
}

#[test]
fn text_for_a_running_command_is_held_to_the_rules_about_commands() {
    let input = |text: &str| card("bash_input", ToolKind::Execute, "/", text);
    for about in ["bash", "execute"] {
        let rule = |pattern: &str| vec![format!("{about}({pattern})")];
        let [deny, all] = [rule("rm *"), vec![about.to_owned()]].map(|deny| {
            let deny: Vec<&str> = deny.iter().map(String::as_str).collect();
            rules(&["execute", "bash_input"], &[], &deny)
        });
        assert_eq!(deny.verdict(&input("rm -rf x\n"), None), Some(Verdict::Deny), "{about}");
        // A shell may interpret it as anything.
        assert_eq!(deny.verdict(&input("yes\n"), None), Some(Verdict::Ask), "{about}");
        assert_eq!(all.verdict(&input("yes\n"), None), Some(Verdict::Deny), "{about}");
    }
    let ask = rules(&["bash_input"], &["bash(git push)"], &[]);
    assert_eq!(ask.verdict(&input("ls\n"), None), Some(Verdict::Ask));
    let other = rules(&["bash_input"], &["edit"], &["read(.env)"]);
    assert_eq!(other.verdict(&input("ls\n"), None), Some(Verdict::Run));
    assert_eq!(rules(&["bash(ls)"], &[], &[]).verdict(&input("ls\n"), None), None);
}

#[test]
fn a_patch_that_removes_files_is_not_allowed_by_a_rule_about_one_kind() {
    let patch = |kind| card("apply_patch", kind, "/project/src/a", "");
    for kind in [ToolKind::Delete, ToolKind::Move] {
        let kinds = rules(&["edit", "delete", "move", "move(src/**)", "delete(src/**)"], &[], &[]);
        assert_eq!(kinds.verdict(&patch(kind), None), None, "{kind:?}");
        assert_eq!(rules(&["apply_patch"], &[], &[]).verdict(&patch(kind), None), Some(Verdict::Run));
        assert_eq!(rules(&["apply_patch(src/**)"], &[], &[]).verdict(&patch(kind), None), Some(Verdict::Run));
    }
    assert_eq!(rules(&["edit(src/**)"], &[], &[]).verdict(&patch(ToolKind::Edit), None), Some(Verdict::Run));
}

#[test]
fn a_change_of_the_memory_is_an_edit_for_rules_that_deny_or_ask() {
    let change = card("memory", ToolKind::Other, "/project/.acpd/memory.md", "");
    let look = card("memory", ToolKind::Think, "/project/.acpd/memory.md", "");
    for deny in ["edit", "edit(.acpd/**)", "memory"] {
        assert_eq!(rules(&["memory"], &[], &[deny]).verdict(&change, None), Some(Verdict::Deny), "{deny}");
    }
    assert_eq!(rules(&[], &["edit"], &[]).verdict(&change, None), Some(Verdict::Ask));
    assert_eq!(rules(&["edit"], &[], &["edit(src/**)"]).verdict(&change, None), None);
    assert_eq!(rules(&[], &[], &["edit"]).verdict(&look, None), None);
}
