//! Tests of skills and custom agents on real folders.

use std::fs;
use std::os::unix::fs::symlink;

use domain::Mode;
use expect_test::expect;

use super::*;

struct Fixture {
    home: tempfile::TempDir,
    project: PathBuf,
    library: Library,
}

/// Returns a trusted project and a user's folder, both empty.
fn fixture() -> Fixture {
    let home = tempfile::tempdir().unwrap();
    let project = home.path().join("project");
    fs::create_dir_all(project.join(".git")).unwrap();
    let own = home.path().join("own");
    let library = Library {
        own: Some(own.clone()),
        skill_folders: vec![home.path().join("claude")],
        trusted: vec![project.clone()],
        protected_paths: vec![home.path().join("state")],
    };
    Fixture { home, project, library }
}

impl Fixture {
    fn write(&self, path: &str, text: &str) {
        let path = self.home.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn open(&self) -> LibraryContents {
        self.library.open(&self.project, &Rules::default())
    }
}

#[test]
fn a_project_brings_none_of_acpds_own_files_under_another_name() {
    let at = fixture();
    at.write("state/key", "hush");
    at.write("project/.acpd/skills/plain/SKILL.md", "Use the table.");
    at.write("project/.acpd/skills/plain/table.txt", "1");
    for name in ["skills/plain/key.txt", "skills/other/SKILL.md", "agents/other.md"] {
        let path = at.project.join(".acpd").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::hard_link(at.home.path().join("state/key"), path).unwrap();
    }
    let contents = at.open();
    let names: Vec<&str> = contents.skills.iter().map(|skill| skill.name.as_str()).collect();
    assert_eq!((names, contents.agents.len()), (vec!["plain"], 0));
    let plain = contents.skill("plain").unwrap();
    assert_eq!(plain.read_file("table.txt"), Ok("1".to_owned()));
    assert_eq!(plain.read_file("key.txt"), Err(SkillError::Outside("key.txt".to_owned())));
}

#[test]
fn skills_and_agents_are_listed_and_the_nearest_definition_wins() {
    let at = fixture();
    at.write("project/.acpd/skills/pdf/SKILL.md", "---\ndescription: Fills forms\n---\nUse the script.");
    at.write("project/.claude/skills/notes/SKILL.md", "# Writing notes\nBriefly.");
    at.write("own/skills/pdf/SKILL.md", "hidden by the project's");
    at.write("own/skills/empty/README.md", "no skill");
    at.write("claude/review/SKILL.md", "---\nname: code-review\ndescription: Reviews\n---\nLook.");
    at.write("project/.acpd/agents/tester.md", "---\ndescription: Runs tests\ntools: bash, grep\n---\nRun them.");
    at.write("own/agents/wrong.md", "---\nmode: everything\n---\nx");
    let contents = at.open();
    expect![[r#"

        Skills: instructions for particular kinds of work. Before you begin work that one of them describes, load it with the tool `skill`.
        - code-review: Reviews
        - notes: Writing notes
        - pdf: Fills forms

        Agents: sub-agents for particular tasks. Name one as `agent` in a call of the tool `agent`.
        - tester: Runs tests
    "#]]
    .assert_eq(&contents.instructions());
    assert_eq!(contents.skill("pdf").unwrap().text(), "Use the script.");
    let tester = contents.agent("tester").unwrap();
    assert_eq!((tester.tools.clone(), tester.mode), (Some(vec!["bash".to_owned(), "grep".to_owned()]), None::<Mode>));
    assert_eq!(contents.notices.len(), 1, "{:?}", contents.notices);
    assert!(contents.notices[0].ends_with("own/agents/wrong.md is not used: there is no mode `everything`."));
}

#[test]
fn skills_and_agents_of_an_untrusted_project_are_not_used_with_a_notice() {
    let mut at = fixture();
    at.write("project/.acpd/skills/pdf/SKILL.md", "text");
    at.write("project/.acpd/agents/tester.md", "text");
    at.library.trusted = vec![at.home.path().join("elsewhere")];
    let contents = at.open();
    assert_eq!((contents.instructions().as_str(), contents.notices.len()), ("", 0), "{:?}", contents.notices);
    assert_eq!(contents.card().notices.len(), 2);
}

#[test]
fn a_project_skill_or_agent_withheld_by_a_rule_is_left_out_with_notice() {
    let at = fixture();
    at.write("project/.acpd/skills/pdf/SKILL.md", "text");
    at.write("project/.acpd/agents/tester.md", "text");
    at.write("own/skills/mine/SKILL.md", "text");
    for rules in [r#"{ "deny": ["read(.acpd/**)"] }"#, r#"{ "ask": ["read"] }"#] {
        let rules: Rules = serde_json::from_str(rules).unwrap();
        let contents = at.library.open(&at.project, &rules);
        assert_eq!(contents.skills.len(), 1);
        assert!(contents.agents.is_empty() && contents.notices.len() == 2, "{:?}", contents.notices);
    }
}

#[test]
fn files_of_a_skill_are_read_below_its_folder_only() {
    let at = fixture();
    at.write("secret.md", "hush");
    at.write("project/.acpd/skills/pdf/SKILL.md", "text");
    at.write("project/.acpd/skills/pdf/scripts/fill.py", "print()");
    at.write("project/.acpd/skills/pdf/forms.md", "forms");
    fs::write(at.project.join(".acpd/skills/pdf/data.bin"), [0xff, 0xfe]).unwrap();
    symlink("../../../../secret.md", at.project.join(".acpd/skills/pdf/link.md")).unwrap();
    symlink(at.home.path(), at.project.join(".acpd/skills/linked")).unwrap();
    let contents = at.open();
    assert_eq!(contents.skills.len(), 1);
    let skill = contents.skill("pdf").unwrap();
    assert_eq!(skill.files(), ["data.bin", "forms.md", "scripts/fill.py"]);
    assert_eq!(skill.read_file("./scripts/fill.py").as_deref(), Ok("print()"));
    let outside = |path: &str| Err(SkillError::Outside(path.to_owned()));
    for path in ["../../../../secret.md", "link.md", "/etc/passwd"] {
        assert_eq!(skill.read_file(path), outside(path));
    }
    assert_eq!(skill.read_file("gone.md"), Err(SkillError::Missing("gone.md".to_owned())));
    for path in ["data.bin", "scripts"] {
        assert_eq!(skill.read_file(path), Err(SkillError::NotText(path.to_owned())));
    }
}

#[test]
fn many_and_long_descriptions_are_cut() {
    let at = fixture();
    for number in 0..MAX_PER_FOLDER + 10 {
        at.write(
            &format!("own/skills/s{number:03}/SKILL.md"),
            &format!("---\ndescription: {}\n---\nx", "long ".repeat(200)),
        );
    }
    let contents = at.open();
    let text = contents.instructions();
    assert_eq!(contents.skills.len(), MAX_PER_FOLDER);
    assert!(text.len() < LISTED + 300 && text.contains("more are left out]"), "{}", text.len());
}
