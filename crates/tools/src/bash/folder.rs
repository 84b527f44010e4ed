//! Finds the folder in which a command runs: the one that the call names, or that of a leading
//! `cd DIR &&`.

use process::confine::ConfinedPath;

use crate::tool::{CallRequest, RefusalReason};

/// Returns the folder if it is not the session's own. A leading `cd` is removed from the command,
/// so that rules, grants and users see what runs and where, instead of a chain of commands.
pub(super) fn choose(
    command: &mut String,
    workdir: Option<&str>,
    call: &CallRequest,
) -> Result<Option<ConfinedPath>, RefusalReason> {
    if let Some(workdir) = workdir.map(str::trim).filter(|workdir| !workdir.is_empty() && *workdir != ".") {
        let folder = call.roots()?.find(workdir)?;
        if !folder.is_folder() {
            return Err(RefusalReason(format!("the `workdir` {} is not a folder", folder.shown)));
        }
        return Ok(Some(folder));
    }
    let Some((name, rest)) = leading_cd(command) else { return Ok(None) };
    // A folder outside the roots, or one that does not exist, is left to the shell.
    let Some(folder) = call.roots().ok().and_then(|roots| roots.find(&name).ok()).filter(ConfinedPath::is_folder)
    else {
        return Ok(None);
    };
    *command = rest;
    let is_own = call.roots()?.find(".").is_ok_and(|own| own.real == folder.real);
    Ok((!is_own).then_some(folder))
}

/// Returns the folder of a leading `cd DIR &&` and the rest of the command. Only if the shell takes
/// the name literally.
fn leading_cd(command: &str) -> Option<(String, String)> {
    let (first, rest) = command.split_once("&&")?;
    let words = policy::shell::plain(first.trim_matches([' ', '\t', '\n']))?;
    let [cd, name] = words.as_slice() else { return None };
    let is_plain = cd.text == "cd" && !name.names_files && !name.text.is_empty() && !name.text.starts_with('-');
    let rest = rest.trim_matches([' ', '\t', '\n']);
    (is_plain && !rest.is_empty()).then(|| (name.text.clone(), rest.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(command: &str) -> Option<(String, String)> {
        leading_cd(command)
    }

    #[test]
    fn a_leading_cd_is_split_off_unless_the_shell_would_expand_it() {
        let pair = |folder: &str, rest: &str| Some((folder.to_owned(), rest.to_owned()));
        assert_eq!(split("cd sub && cargo test"), pair("sub", "cargo test"));
        assert_eq!(split(" cd 'a b' &&\nmake && make install"), pair("a b", "make && make install"));
        for command in [
            "cd && ls",
            "cd - && ls",
            "cd ~ && ls",
            "cd $X && ls",
            "cd a* && ls",
            "cd a b && ls",
            "cd a; ls && x",
            "cd a &&",
            "echo cd a && ls",
            "cd a || ls && b",
            "cd \"$(x)\" && ls",
        ] {
            assert_eq!(split(command), None, "{command}");
        }
    }
}
