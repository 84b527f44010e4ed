//! Builds what a model gets before the conversation: the system prompt, facts about the place in
//! which it works, and the notes that a project and its user have written for agents. Facts that
//! change during a session are sent with the user's messages instead.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use domain::ModelId;
use domain::instructions::{
    Expansion, Instructions, LibraryCard, SessionContext, SlashCommandCard, SystemPrompt, TypedSlashCommand, Workspace,
};
use futures_util::future::BoxFuture;
use policy::Rules;
use process::Launcher;
use process::protected_files::ProtectedFiles;

use crate::facts::{self, GitStatus};
use crate::note_files::NoteReader;
use crate::{FolderRules, Library, project_config, slash_commands, system_prompt};

/// How long reading a project's folder may take. On a network that is gone it would block forever.
const DEADLINE: Duration = Duration::from_secs(10);

/// Names of files with notes for agents. In each folder only the first existing one is used.
pub const NAMES: [&str; 5] = ["AGENTS.md", "CLAUDE.md", "GEMINI.md", "GGCODE.md", ".github/copilot-instructions.md"];

/// The files of the tool `memory`: beside the user's own notes, and in the working folder.
pub const MEMORY: &str = "memory.md";
pub const PROJECT_MEMORY: &str = ".acpd/memory.md";

#[derive(Clone)]
pub struct Notes {
    /// Names of files to read in the working folder and above it, up to the repository's root. In
    /// each folder only the first existing one is used.
    pub names: Vec<String>,
    /// The user's own notes, which apply to every project. The folder `commands` is beside them.
    pub own: Option<PathBuf>,
    /// The home folder, from which the user's own notes may import files.
    pub home: Option<PathBuf>,
    /// acpd's own files and folders, which a project cannot make us read.
    pub protected_paths: Vec<PathBuf>,
    /// The rules about which files may be read; None applies only those of the project.
    pub rules: Option<Arc<FolderRules>>,
    /// The sources of skills and custom agents.
    pub library: Library,
    /// How git is started; None does not run git.
    pub launcher: Option<Launcher>,
}

impl Default for Notes {
    fn default() -> Self {
        Self {
            names: NAMES.map(str::to_owned).to_vec(),
            own: None,
            home: None,
            protected_paths: Vec::new(),
            rules: None,
            library: Library::default(),
            launcher: None,
        }
    }
}

impl Instructions for Notes {
    fn system_prompt(&self, place: Workspace, model: ModelId) -> BoxFuture<'static, SystemPrompt> {
        let notes = self.clone();
        let late = format!("{} did not answer in time, so its notes were not read", place.cwd.display());
        let bare = system_prompt::instructions(&model) + &facts::lasting(&place);
        let look = tokio::task::spawn_blocking(move || notes.write(&place, &model));
        Box::pin(async move {
            match tokio::time::timeout(DEADLINE, look).await {
                Ok(written) => written.unwrap_or_else(|_| bare.into()),
                Err(_) => SystemPrompt { text: bare, notices: vec![late] },
            }
        })
    }

    fn environment_facts(&self, situation: SessionContext) -> Option<BoxFuture<'static, String>> {
        let notes = self.clone();
        Some(Box::pin(async move {
            let git = notes.git_status(&situation).await;
            let look = tokio::task::spawn_blocking(move || {
                let status = git.map(|(status, rules)| status.permitted(&rules));
                facts::changing(&situation, status.as_deref())
            });
            tokio::time::timeout(DEADLINE, look).await.ok().and_then(Result::ok).unwrap_or_default()
        }))
    }

    fn commands(&self, place: Workspace) -> BoxFuture<'static, Vec<SlashCommandCard>> {
        let notes = self.clone();
        let look = tokio::task::spawn_blocking(move || {
            let (own, rules) = (notes.own_commands(), notes.rules_in(&place.cwd));
            slash_commands::list(&place.cwd, own.as_deref(), &rules, &notes.protected_files())
        });
        Box::pin(
            async move { tokio::time::timeout(DEADLINE, look).await.ok().and_then(Result::ok).unwrap_or_default() },
        )
    }

    fn library(&self, place: Workspace) -> BoxFuture<'static, LibraryCard> {
        let notes = self.clone();
        let look =
            tokio::task::spawn_blocking(move || notes.library.open(&place.cwd, &notes.rules_in(&place.cwd)).card());
        Box::pin(
            async move { tokio::time::timeout(DEADLINE, look).await.ok().and_then(Result::ok).unwrap_or_default() },
        )
    }

    fn expand(&self, place: Workspace, call: TypedSlashCommand) -> BoxFuture<'static, Option<Expansion>> {
        let notes = self.clone();
        let look = tokio::task::spawn_blocking(move || {
            let (own, rules) = (notes.own_commands(), notes.rules_in(&place.cwd));
            slash_commands::expand(&place.cwd, own.as_deref(), &rules, &notes.protected_files(), &call)
        });
        Box::pin(
            async move { tokio::time::timeout(DEADLINE, look).await.ok().and_then(Result::ok).unwrap_or_default() },
        )
    }
}

impl Notes {
    fn own_commands(&self) -> Option<PathBuf> {
        self.own.as_ref().map(|file| file.with_file_name("commands"))
    }

    fn rules_in(&self, cwd: &Path) -> Rules {
        match &self.rules {
            Some(rules) => rules.read(cwd),
            None => project_config::read(cwd).rules,
        }
    }

    fn protected_files(&self) -> ProtectedFiles {
        ProtectedFiles::locate(&self.protected_paths)
    }

    /// Asks git for the status of the session's repository, if there is one. Returns it with the
    /// rules of the folder.
    async fn git_status(&self, situation: &SessionContext) -> Option<(GitStatus, Rules)> {
        let launcher = self.launcher.as_ref()?;
        let (notes, cwd) = (self.clone(), situation.workspace.cwd.clone());
        let look = tokio::task::spawn_blocking(move || Some((facts::root(&cwd)?.to_owned(), notes.rules_in(&cwd))));
        let (root, rules) = tokio::time::timeout(DEADLINE, look).await.ok()?.ok()??;
        let environment = &situation.environment;
        let git = facts::SandboxedGit { launcher, environment, protected_paths: &self.protected_paths };
        Some((facts::git_status(&git, root).await?, rules))
    }

    fn write(&self, place: &Workspace, model: &ModelId) -> SystemPrompt {
        let project = project_config::read(&place.cwd);
        let rules = self.rules_in(&place.cwd);
        let protected = self.protected_files();
        let mut reader = NoteReader::new(&rules, &protected);
        reader.home = self.home.as_deref();
        // The facts of the tool `memory` about the user follow the user's notes; those about the
        // project come further below.
        for file in self.own.iter().cloned().chain(self.own_memory()) {
            reader.add_own(&file);
        }
        let root = facts::root(&place.cwd).unwrap_or(&place.cwd);
        // Notes of nearer folders come later and take precedence.
        for folder in folders(&place.cwd) {
            let included = self.names.iter().find(|name| reader.add_project(root, folder, name));
            // Files that the project's configuration names are added.
            for name in project.notes.iter().filter(|name| Some(*name) != included) {
                reader.add_project(root, folder, name);
            }
        }
        reader.add_project(root, &place.cwd, PROJECT_MEMORY);
        let contents = self.library.open(&place.cwd, &rules);
        let mut text = system_prompt::instructions(model) + &facts::lasting(place);
        if !reader.text.is_empty() {
            text.push_str(system_prompt::ABOUT_NOTES);
            text.push_str(&reader.text);
        }
        text.push_str(&contents.instructions());
        let mut notices = project.complaints;
        notices.extend(reader.notices);
        notices.extend(contents.notices);
        SystemPrompt { text, notices }
    }

    /// Returns the file with remembered facts about the user.
    fn own_memory(&self) -> Option<PathBuf> {
        self.own.as_ref().map(|file| file.with_file_name(MEMORY))
    }
}

/// Returns the folders from the repository's root down to this one; outside a repository, only this
/// one.
pub(crate) fn folders(cwd: &Path) -> Vec<&Path> {
    let mut folders: Vec<&Path> = match facts::root(cwd) {
        Some(root) => cwd.ancestors().take_while(|folder| folder.starts_with(root)).collect(),
        None => vec![cwd],
    };
    folders.reverse();
    folders
}

#[cfg(test)]
mod tests {
    use std::fs;

    use domain::Mode;

    use super::*;

    impl Notes {
        /// Returns the notes in a folder, without the system prompt before them.
        fn included(&self, cwd: &Path) -> SystemPrompt {
            let place = Workspace { cwd: cwd.to_owned(), extra_roots: Vec::new(), mode: Mode::Full };
            let SystemPrompt { text, notices } = self.write(&place, &ModelId::from("some/model"));
            let (_, rest) = text.split_once("# Place").unwrap();
            SystemPrompt { text: rest.replace(system_prompt::ABOUT_NOTES, ""), notices }
        }
    }

    #[test]
    fn notes_are_read_from_the_repositorys_root_down() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("project");
        let deep = project.join("src/deep");
        fs::create_dir_all(&deep).unwrap();
        fs::create_dir(project.join(".git")).unwrap();
        for (place, text) in
            [(folder.path(), "above"), (&project, "at the root"), (&deep, "here"), (&project.join("src"), " ")]
        {
            fs::write(place.join("AGENTS.md"), text).unwrap();
        }
        let own = folder.path().join("own.md");
        fs::write(&own, "always").unwrap();
        let notes = Notes { own: Some(own), ..Notes::default() };
        let text = notes.included(&deep).text;
        let order: Vec<usize> = ["always", "at the root", "here"].map(|note| text.find(note).unwrap()).to_vec();
        assert!(order.is_sorted(), "{text}");
        assert!(!text.contains("above"), "{text}");
        assert_eq!(text.matches("<notes").count(), 3, "{text}");
    }

    #[test]
    fn memory_of_user_and_project_follows_their_notes() {
        let folder = tempfile::tempdir().unwrap();
        let (own, project) = (folder.path().join("config/AGENTS.md"), folder.path().join("project"));
        for (path, text) in [
            (own.clone(), "own notes"),
            (own.with_file_name(MEMORY), "- about the user"),
            (project.join("AGENTS.md"), "notes of the project"),
            (project.join(PROJECT_MEMORY), "- about the project"),
        ] {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let text = Notes { own: Some(own), ..Notes::default() }.included(&project).text;
        let places = ["own notes", "- about the user", "notes of the project", "- about the project"];
        assert!(places.map(|part| text.find(part).unwrap()).is_sorted(), "{text}");
    }

    #[test]
    fn outside_a_repository_only_the_folders_own_notes_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        fs::create_dir(&inner).unwrap();
        fs::write(folder.path().join("AGENTS.md"), "above").unwrap();
        fs::write(inner.join("CLAUDE.md"), "é".repeat(40_000)).unwrap();
        let text = Notes::default().included(&inner).text;
        assert!(!text.contains("above") && text.contains("[the rest of the file was left out]"));
    }

    #[test]
    fn in_each_folder_the_first_notes_file_counts() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        for made in [".git", ".github", ".acpd", "inner"] {
            fs::create_dir(folder.path().join(made)).unwrap();
        }
        let order = ["AGENTS.md", "CLAUDE.md", "GEMINI.md", "GGCODE.md", ".github/copilot-instructions.md"];
        for name in order {
            fs::write(folder.path().join(name), format!("in {name}")).unwrap();
        }
        fs::write(inner.join("GEMINI.md"), "near").unwrap();
        for gone in order {
            let text = Notes::default().included(&inner).text;
            let included: Vec<&&str> = order.iter().filter(|name| text.contains(&format!("in {name}"))).collect();
            assert_eq!(included, [&gone], "{text}");
            assert!(text.find("in ") < text.find("near"), "{text}");
            fs::remove_file(folder.path().join(gone)).unwrap();
        }
        fs::write(folder.path().join("AGENTS.md"), "first").unwrap();
        fs::write(folder.path().join("RULES.md"), "on top").unwrap();
        fs::write(folder.path().join(".acpd/config.toml"), "[session]\nnotes = [\"RULES.md\", \"AGENTS.md\"]\n")
            .unwrap();
        let text = Notes::default().included(&inner).text;
        assert_eq!((text.matches("first").count(), text.matches("on top").count()), (1, 1), "{text}");
    }

    #[test]
    fn notes_withheld_by_a_rule_are_left_out_with_a_notice() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(".acpd")).unwrap();
        for (name, text) in [
            (".env", "KEY=hush"),
            ("AGENTS.md", "asked"),
            ("CLAUDE.md", "fine"),
            (".acpd/config.toml", "[session]\nnotes = [\".env\"]\n"),
        ] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(folder.path(), &link).unwrap();
        let permissions = serde_json::from_value(serde_json::json!({
            "deny": [format!("read({}/.env)", folder.path().canonicalize().unwrap().display())],
            "ask": ["read_file(AGENTS.md)"],
        }))
        .unwrap();
        let notes = Notes { rules: Some(Arc::new(FolderRules::new(permissions))), ..Notes::default() };
        for cwd in [folder.path(), &link] {
            let SystemPrompt { text, notices } = notes.included(cwd);
            assert!(!text.contains("hush") && !text.contains("asked") && text.contains("fine"), "{text}");
            assert!(notices[0].ends_with("AGENTS.md was not sent to the model: a rule asks before it is read."));
            assert!(notices[1].ends_with(".env was not sent to the model: a rule denies reading it."));
        }
    }

    #[test]
    fn project_files_are_read_only_inside_the_project() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("project");
        fs::create_dir_all(project.join(".git")).unwrap();
        fs::write(folder.path().join("secret"), "hush").unwrap();
        std::os::unix::fs::symlink("../secret", project.join("AGENTS.md")).unwrap();
        let text = Notes::default().included(&project).text;
        assert!(!text.contains("hush"), "{text}");
    }

    #[test]
    fn acpds_own_files_are_never_notes_of_a_project() {
        let folder = tempfile::tempdir().unwrap();
        let (state, project) = (folder.path().join("state"), folder.path().join("project"));
        fs::create_dir_all(&state).unwrap();
        fs::create_dir_all(&project).unwrap();
        fs::write(state.join("AGENTS.md"), "hush").unwrap();
        fs::hard_link(state.join("AGENTS.md"), project.join("AGENTS.md")).unwrap();
        let notes = Notes { protected_paths: vec![state.clone()], ..Notes::default() };
        for cwd in [&state, &project] {
            assert!(!notes.included(cwd).text.contains("hush"), "{}", cwd.display());
        }
        let own = Notes { own: Some(state.join("AGENTS.md")), ..notes };
        assert!(own.included(&project).text.contains("hush"));
    }
}
