//! Decides whether a shell command names one of acpd's own files. Pure: reads no files.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use domain::Environment;

use crate::glob::{StarMatches, glob};
use crate::shell::{self, Programs};

/// Characters that end a word, besides whitespace. A path may follow any of them.
const BETWEEN: [char; 13] = [';', '|', '&', '<', '>', '(', ')', '=', ',', ':', '`', '{', '}'];

/// The most different file patterns in one command.
const MAX_PATTERNS: usize = 500;

/// Returns whether a command names a protected path. `cwd` is the folder in which it starts, and
/// `environment` has its variables.
pub fn names_protected_path(command: &str, protected_paths: &[PathBuf], cwd: &Path, environment: &Environment) -> bool {
    if protected_paths.iter().any(|protected| cwd.starts_with(protected)) {
        return true;
    }
    let bare = expand(&command.replace(['\'', '"', '\\'], ""), environment);
    if protected_paths.iter().any(|protected| protected.to_str().is_some_and(|protected| bare.contains(protected)))
        || uses_proc(&bare)
    {
        return true;
    }
    let words = Words::of(command, &bare, environment);
    // A command has this many patterns only to hide where they lead.
    if words.all.iter().filter(|word| word.contains(['*', '?', '['])).count() > MAX_PATTERNS {
        return true;
    }
    let has_end = |word: &str| protected_paths.iter().any(|protected| has_end_of(Path::new(word), protected));
    words.all.iter().any(|word| has_end(word))
        || protected_paths.iter().any(|protected| is_reached(protected, &words, cwd, environment))
}

/// The words of a command that may be paths.
struct Words {
    all: BTreeSet<String>,
    /// Words that may be folders to which the command changes.
    steps: BTreeSet<String>,
}

impl Words {
    /// Collects the words as they are written, and as they are without the shell's quotes and
    /// braces.
    fn of(command: &str, bare: &str, environment: &Environment) -> Self {
        // Braces and character classes are not evaluated: they become wildcards.
        let open = |text: &str| without_braces(&without_classes(text));
        let split = |text: &str| -> Vec<String> {
            let words = text.split(|letter: char| letter.is_whitespace() || BETWEEN.contains(&letter));
            words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
        };
        let mut all: BTreeSet<String> = split(bare).into_iter().chain(split(&open(bare))).collect();
        let Programs { calls, hides_some, .. } = shell::programs(&expand(command, environment));
        let mut steps = BTreeSet::new();
        for call in &calls {
            let words: Vec<String> = call.iter().flat_map(|word| split(&open(&word.text))).collect();
            if call.first().is_some_and(|program| matches!(program.text.as_str(), "cd" | "pushd")) {
                steps.extend(words.iter().cloned());
            }
            all.extend(words);
        }
        if hides_some && (all.contains("cd") || all.contains("pushd")) {
            steps.clone_from(&all);
        }
        Self { all, steps }
    }
}

/// Replaces `[[:alpha:]]` and similar classes with `?`.
fn without_classes(text: &str) -> String {
    let mut text = text.to_owned();
    while let Some(start) = text.find("[[:").or_else(|| text.find("[![:")).or_else(|| text.find("[^[:")) {
        let Some(end) = text[start..].find(":]]").map(|end| start + end + 3) else { break };
        text.replace_range(start..end, "?");
    }
    text
}

/// Replaces `{a,b}` with `*`.
fn without_braces(text: &str) -> String {
    let mut text = text.to_owned();
    while let Some(end) = text.find('}') {
        match text[..end].rfind('{') {
            Some(start) => text.replace_range(start..=end, "*"),
            None => text.replace_range(end..=end, "*"),
        }
    }
    text
}

/// Returns whether a text uses links in /proc, such as a process's working folder, which are
/// aliases of other folders.
fn uses_proc(text: &str) -> bool {
    text.contains("/proc/") && ["/cwd", "/root", "/fd/", "/map_files"].iter().any(|link| text.contains(link))
}

/// Returns whether a command with these words can reach a protected path. It may change to a folder
/// above it in several steps, and name it from there. Its position after each step is a depth in
/// the protected path.
fn is_reached(protected: &Path, words: &Words, cwd: &Path, environment: &Environment) -> bool {
    let Words { all, steps } = words;
    let wanted: Vec<Component<'_>> =
        protected.components().filter(|part| matches!(part, Component::Normal(_))).collect();
    let depth_of = |folder: &Path| folder.components().count().saturating_sub(1);
    // The starting folder, and those above it if the command goes up. `cd` alone goes to the home
    // folder.
    let goes_up = all.iter().any(|word| word.split('/').any(|part| part == ".."));
    let starts = cwd.ancestors().take(if goes_up { usize::MAX } else { 1 });
    let home = environment.get("HOME").map(Path::new).filter(|_| all.contains("cd") || all.contains("~"));
    let starts = starts.chain(home).filter(|folder| protected.starts_with(folder));
    let mut reached: BTreeSet<usize> = starts.map(depth_of).collect();
    let has_globstar = all.contains("globstar");
    let lead =
        |word: &str, from: usize| walk(word, if word.starts_with('/') { 0 } else { from }, &wanted, has_globstar);
    // Absolute paths lead to the same folder from everywhere.
    let absolute = |words: &BTreeSet<String>| -> Vec<usize> {
        words.iter().filter(|word| word.starts_with('/')).filter_map(|word| lead(word, 0)).collect()
    };
    // So does a relative path that goes up, as `../.config/ac*`: the folder from which it goes up
    // may lie beside the protected path. What a pattern before a `..` matches makes no difference.
    let upward = |words: &BTreeSet<String>| -> Vec<usize> {
        let goes_up = |word: &&String| !word.starts_with('/') && word.split('/').any(|part| part == "..");
        let from_root = words.iter().filter(goes_up).map(|word| clean(&cwd.join(word)));
        from_root.filter_map(|path| lead(&path.to_string_lossy(), 0)).collect()
    };
    if absolute(all).contains(&wanted.len()) || upward(all).contains(&wanted.len()) {
        return true;
    }
    reached.extend(absolute(steps));
    reached.extend(upward(steps));
    let mut open: Vec<usize> = reached.iter().copied().collect();
    while let Some(from) = open.pop() {
        if all.iter().any(|word| lead(word, from) == Some(wanted.len())) {
            return true;
        }
        for depth in steps.iter().filter_map(|word| lead(word, from)) {
            if reached.insert(depth) {
                open.push(depth);
            }
        }
    }
    false
}

/// Returns the depth in the wanted path to which a word leads from a given depth: the full depth if
/// it leads to that path or into it, None if it leads elsewhere.
fn walk(word: &str, from: usize, wanted: &[Component<'_>], has_globstar: bool) -> Option<usize> {
    let mut depth = from;
    for part in Path::new(word).components() {
        match part {
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            Component::ParentDir => depth = depth.saturating_sub(1),
            Component::Normal(name) if has_globstar && name == "**" => return Some(wanted.len()),
            Component::Normal(_) if fits_part(part, *wanted.get(depth)?) => depth += 1,
            Component::Normal(_) => return None,
        }
        if depth == wanted.len() {
            break;
        }
    }
    Some(depth)
}

/// Expands `~` and the variables that name the user's folders.
pub(super) fn expand(text: &str, environment: &Environment) -> String {
    let mut text = text.to_owned();
    for name in ["HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "ACPD_SOCKET"] {
        let Some(value) = environment.get(name).filter(|value| value.starts_with('/')) else { continue };
        text = text.replace(&format!("${{{name}}}"), value).replace(&format!("${name}"), value);
        // Expansions with an operator, such as `${HOME%/}`, count as the plain value.
        while let Some(start) = text.find(&format!("${{{name}%")).or_else(|| text.find(&format!("${{{name}:"))) {
            let Some(end) = text[start..].find('}').map(|end| start + end) else { break };
            text.replace_range(start..=end, value);
        }
        if name == "HOME" {
            text = text.replace("~/", &format!("{value}/"));
        }
    }
    text
}

/// Returns whether a path component equals the wanted one, or is a shell pattern that matches it.
pub(super) fn fits_part(part: Component<'_>, wanted: Component<'_>) -> bool {
    if part == wanted {
        return true;
    }
    let part = part.as_os_str().to_string_lossy();
    // A pattern that is too long to compile may match anything.
    part.contains(['*', '?', '['])
        && glob(&part, StarMatches::WithinPart).map_or(true, |glob| glob.is_match(wanted.as_os_str()))
}

/// Returns whether a path contains the last two components of a protected path, as in
/// `$SOMEWHERE/.config/acpd`.
fn has_end_of(path: &Path, protected: &Path) -> bool {
    let name = |component: Component<'_>| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => None,
    };
    let end: Vec<_> = protected.components().filter_map(name).collect();
    let Some(end) = end.len().checked_sub(2).map(|start| &end[start..]) else { return false };
    let parts: Vec<_> = path.components().filter_map(name).collect();
    parts.windows(2).any(|two| two == end)
}

/// Removes `.` and `..` by the text alone.
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
        let protected_paths =
            ["/home/me/.local/state/acpd", "/home/me/.config/acpd", "/run/user/7/acpd"].map(PathBuf::from);
        let environment: Environment = [("HOME", "/home/me"), ("XDG_RUNTIME_DIR", "/run/user/7")]
            .map(|(n, v)| (n.to_owned(), v.to_owned()))
            .into_iter()
            .collect();
        let named =
            |command: &str, cwd: &str| names_protected_path(command, &protected_paths, Path::new(cwd), &environment);
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
            "cd; cd .local; cd state; cat acpd/keys/x",
            "cd ~/.local/st*; cd ac*; cat keys/x",
            "cat ~/.local/state/[[:alpha:]]cpd/keys/x",
            "cat ~/.local/state/ac{p,q}d/keys/x",
            "cat ~/.local/st{at,}e/acpd/keys/x",
            "cat ~/.local/state/$'acp\\x64'/keys/x",
            "shopt -s globstar dotglob; cat **/x",
            "cd ~/.local/state/; cat /proc/self/cwd/acpd/keys/x",
            "cd ${HOME%/}/.local/state; cat acpd/keys/x",
            "cd .local; cat ../.local/state/acpd/keys/x",
        ];
        for command in naming {
            assert!(named(command, "/home/me"), "{command}");
        }
        for command in [
            "acpd ctl status",
            "cat .config/other",
            "ls *",
            "cd work && ls *",
            "find . -name '*'",
            "ls -la",
            "git log",
            "cat acpd/README.md",
            "grep -r x src",
        ] {
            assert!(!named(command, "/home/me"), "{command}");
        }
        assert!(!named(&format!("ls{}", " /".repeat(50_000)), "/home/me"));
        let many: String = (0..20_000).map(|number| format!(" /[h{number}]*")).collect();
        assert!(named(&format!("ls{many}"), "/home/me"));
        assert!(named("ls", "/home/me/.config/acpd/commands"));
        assert!(!named("cat acpd/x", "/home/me/work"));
        for command in [
            "cat ../.config/ac*/config.toml",
            "cat ../.config/acp?/c*",
            "cat ../.config/{acpd,x}/c*",
            "cat ../work/../.config/ac*/c*",
            "cat x*/../../.con*/ac*/c*",
            "cat ../.local/state/ac*/*",
            "echo x >> ../.config/ac*/config.toml",
            "cd ../work/..; cat .con*/ac*/c*",
        ] {
            assert!(named(command, "/home/me/work"), "{command}");
        }
        for command in ["ls ../*", "cat ../other/ac*/x", "cat ../../x", "cd .. && ls"] {
            assert!(!named(command, "/home/me/work"), "{command}");
        }
    }
}
