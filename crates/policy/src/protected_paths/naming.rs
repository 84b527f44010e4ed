//! Finds out whether the text of a shell command names one of acpd's own files. Pure: looks at no files.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use domain::Environment;

use crate::glob::{Star, glob};

/// What ends a word, besides whitespace. A path may follow any of these.
const BETWEEN: [char; 13] = [';', '|', '&', '<', '>', '(', ')', '=', ',', ':', '`', '{', '}'];

/// The most different file patterns in one command.
const MAX_PATTERNS: usize = 500;

/// The most folders above protected paths that one command may name. There are about a dozen, and patterns that may
/// match them.
const MAX_BASES: usize = 100;

/// `cwd` is where the command starts, and `environment` gives its variables.
pub fn names_protected_path(command: &str, places: &[PathBuf], cwd: &Path, environment: &Environment) -> bool {
    if places.iter().any(|place| cwd.starts_with(place)) {
        return true;
    }
    let text = expand(&command.replace(['\'', '"', '\\'], ""), environment);
    if places.iter().any(|place| place.to_str().is_some_and(|place| text.contains(place))) {
        return true;
    }
    let words: BTreeSet<&str> =
        text.split(|letter: char| letter.is_whitespace() || BETWEEN.contains(&letter)).collect();
    // An ordinary command does not have so many patterns.
    if words.iter().filter(|word| word.contains(['*', '?', '['])).count() > MAX_PATTERNS {
        return true;
    }
    let words = || words.iter().copied();
    // A command may change to a folder above the path first, and name it from there.
    let mut bases = BTreeSet::from([cwd.to_owned()]);
    for word in words().filter(|word| !word.is_empty()) {
        let path = clean(&cwd.join(word));
        if places.iter().any(|place| place.starts_with(&path) || covers(&path, place)) {
            bases.insert(path);
        }
        if bases.len() > MAX_BASES {
            return true;
        }
    }
    let named = |word: &str, place: &PathBuf| {
        has_end_of(Path::new(word), place) || bases.iter().any(|base| covers(&clean(&base.join(word)), place))
    };
    words().filter(|word| !word.is_empty()).any(|word| places.iter().any(|place| named(word, place)))
}

/// Replaces `~` and the variables that name the user's folders.
pub(super) fn expand(text: &str, environment: &Environment) -> String {
    let mut text = text.to_owned();
    for name in ["HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "ACPD_SOCKET"] {
        let Some(value) = environment.get(name).filter(|value| value.starts_with('/')) else { continue };
        text = text.replace(&format!("${{{name}}}"), value).replace(&format!("${name}"), value);
        if name == "HOME" {
            text = text.replace("~/", &format!("{value}/"));
        }
    }
    text
}

/// Whether a path leads to a protected path or into it. Its components may be shell patterns.
fn covers(path: &Path, place: &Path) -> bool {
    let mut parts = path.components();
    place.components().all(|wanted| parts.next().is_some_and(|part| fits_part(part, wanted)))
}

/// Whether a component of a path is this one, or a shell pattern that matches it.
pub(super) fn fits_part(part: Component<'_>, wanted: Component<'_>) -> bool {
    if part == wanted {
        return true;
    }
    let part = part.as_os_str().to_string_lossy();
    // A pattern that is too long to be read may become anything.
    part.contains(['*', '?', '['])
        && glob(&part, Star::WithinPart).map_or(true, |glob| glob.is_match(wanted.as_os_str()))
}

/// Whether a path contains the last two components of a protected path, as in `$SOMEWHERE/.config/acpd`.
fn has_end_of(path: &Path, place: &Path) -> bool {
    let name = |component: Component<'_>| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => None,
    };
    let end: Vec<_> = place.components().filter_map(name).collect();
    let Some(end) = end.len().checked_sub(2).map(|start| &end[start..]) else { return false };
    let parts: Vec<_> = path.components().filter_map(name).collect();
    parts.windows(2).any(|two| two == end)
}

/// Removes `.` and `..`, by the text alone.
pub(super) fn clean(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                clean.pop();
            }
            Component::CurDir => {}
            Component::Normal(_) | Component::RootDir | Component::Prefix(_) => clean.push(component),
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_protected_path_is_found_in_every_spelling() {
        let places = ["/home/me/.local/state/acpd", "/home/me/.config/acpd", "/run/user/7/acpd"].map(PathBuf::from);
        let environment: Environment = [("HOME", "/home/me"), ("XDG_RUNTIME_DIR", "/run/user/7")]
            .map(|(n, v)| (n.to_owned(), v.to_owned()))
            .into_iter()
            .collect();
        let named = |command: &str, cwd: &str| names_protected_path(command, &places, Path::new(cwd), &environment);
        let naming = [
            "cat /home/me/.local/state/acpd/keys/anthropic",
            "cat ~/.local/state/acpd/http.token",
            "cat \"$HOME\"/.config/acpd/config.toml",
            "cat ${HOME}/.con'fig'/acpd/config.toml",
            "cat $XDG_RUNTIME_DIR/acpd/acpd.sock",
            "cat ../me/.config/acpd/config.toml",
            "cat ~/.local/state/*/keys/*",
            "cat ~/.local/state/acp?/keys/x",
            "tee --output=/home/me/.config/acpd/config.toml",
            "echo x>~/.config/acpd/config.toml",
            "cat $SOMEWHERE/.config/acpd/config.toml",
            "cd ~/.local/state && cat acpd/keys/anthropic",
            "cd .config; cp x acpd",
            "ls .config/./acpd",
        ];
        for command in naming {
            assert!(named(command, "/home/me"), "{command}");
        }
        for command in
            ["acpd ctl status", "cat .config/other", "ls -la", "git log", "cat acpd/README.md", "grep -r x src"]
        {
            assert!(!named(command, "/home/me"), "{command}");
        }
        assert!(!named(&format!("ls{}", " /".repeat(50_000)), "/home/me"));
        let many: String = (0..20_000).map(|number| format!(" /[h{number}]*")).collect();
        assert!(named(&format!("ls{many}"), "/home/me"));
        assert!(named("ls", "/home/me/.config/acpd/commands"));
        assert!(!named("cat acpd/x", "/home/me/work"));
    }
}
