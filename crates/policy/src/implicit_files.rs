//! Files that programs run or obey without being asked to: start-up files of shells and editors,
//! configuration that names programs, hooks. Writing one can run a command later, so neither
//! "accept edits" nor an "always" answer about edits covers it. Pure: decides by the path alone.
//!
//! Files that a build runs by design (makefiles, build scripts, `package.json`) are the project's
//! own code and are not listed.

use std::path::{Component, Path};

/// File names that count in any folder.
const NAMES: [&str; 37] = [
    ".bash_aliases",
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".bashrc",
    ".bunfig.toml",
    ".envrc",
    ".exrc",
    ".gdbinit",
    ".gitconfig",
    ".gitmodules",
    ".inputrc",
    ".lldbinit",
    ".mcp.json",
    ".mise.toml",
    ".npmrc",
    ".nvimrc",
    ".pnpmfile.cjs",
    ".pre-commit-config.yaml",
    ".profile",
    ".pypirc",
    ".pythonrc",
    ".tool-versions",
    ".vimrc",
    ".xinitrc",
    ".xprofile",
    ".yarnrc",
    ".yarnrc.yml",
    ".zlogin",
    ".zlogout",
    ".zprofile",
    ".zshenv",
    ".zshrc",
    "mise.toml",
    "sitecustomize.py",
    "usercustomize.py",
    // Every folder that git recognises as a repository has a file of this name.
    "HEAD",
];

/// Folders whose whole contents count.
const FOLDERS: [&str; 13] = [
    ".acpd",
    ".cargo",
    ".claude",
    ".config",
    ".cursor",
    ".devcontainer",
    ".direnv",
    ".git",
    ".husky",
    ".idea",
    ".ssh",
    ".vscode",
    ".zed",
];

/// Returns whether some program may run this file, or a program that it names, without being asked
/// to.
pub fn runs_implicitly(path: &Path) -> bool {
    let is_one = |part: Component<'_>, names: &[&str]| {
        let Component::Normal(name) = part else { return false };
        names.iter().any(|known| name.eq_ignore_ascii_case(known))
    };
    let mut parts = path.components();
    parts.next_back().is_some_and(|name| is_one(name, &NAMES)) || parts.any(|part| is_one(part, &FOLDERS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_programs_run_by_themselves_are_recognised() {
        for path in
            ["/p/.envrc", "/p/HEAD", "/p/.cargo/config.toml", "/p/.vscode/tasks.json", "/p/a/.npmrc", "/p/.BashRC"]
        {
            assert!(runs_implicitly(Path::new(path)), "{path}");
        }
        for path in ["/p/src/main.rs", "/p/Makefile", "/p/package.json", "/p/cargo/x", "/p/README.md", "/p/.gitignore"]
        {
            assert!(!runs_implicitly(Path::new(path)), "{path}");
        }
    }
}
