//! The folders that identify a daemon, and the check that a client expects the same ones.
//!
//! `HOME`, `XDG_STATE_HOME` and `XDG_CONFIG_HOME` of the program that starts a daemon choose the
//! daemon's history, keys and rules. A client with other values would silently work with the wrong
//! ones, so it is refused.

use std::path::PathBuf;

/// The folders of a daemon, or those that a client expects. A field that is `None` is not compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DaemonFolders {
    pub home: Option<PathBuf>,
    /// The folder of history, keys and logs.
    pub state: Option<PathBuf>,
    /// The configuration file. `None` for a daemon that was started with `--config`.
    pub config: Option<PathBuf>,
}

/// A difference between a daemon's folders and those that a client expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderMismatch {
    /// A sentence that names both folders.
    pub reason: String,
    /// What the user can do about it.
    pub hint: String,
}

impl DaemonFolders {
    /// Returns the first difference between these folders and what a client expects.
    pub fn mismatch(&self, expected: &Self) -> Option<FolderMismatch> {
        let compared = [
            ("serves the home", "HOME", &self.home, &expected.home),
            ("keeps its state in", "XDG_STATE_HOME", &self.state, &expected.state),
            ("uses the configuration", "XDG_CONFIG_HOME", &self.config, &expected.config),
        ];
        compared.into_iter().find_map(|(verb, variable, own, theirs)| {
            let (own, theirs) = (own.as_ref()?, theirs.as_ref()?);
            (own != theirs).then(|| FolderMismatch {
                reason: format!("this daemon {verb} {}, not {}", own.display(), theirs.display()),
                hint: format!(
                    "set {variable} as it was when the daemon was started; or end the daemon with `acpd ctl stop` and \
                     start it from here; or give this program and its clients a daemon of their own with `--socket \
                     PATH` or ACPD_SOCKET"
                ),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folders(home: &str, state: &str, config: &str) -> DaemonFolders {
        let path = |text: &str| (!text.is_empty()).then(|| PathBuf::from(text));
        DaemonFolders { home: path(home), state: path(state), config: path(config) }
    }

    #[test]
    fn a_difference_is_reported_and_an_unknown_folder_is_not_compared() {
        let own = folders("/h", "/s", "/c");
        assert_eq!(own.mismatch(&own), None);
        assert_eq!(own.mismatch(&DaemonFolders::default()), None);
        let reason = |expected: &DaemonFolders| own.mismatch(expected).unwrap().reason;
        assert_eq!(reason(&folders("/x", "/s", "/c")), "this daemon serves the home /h, not /x");
        assert_eq!(reason(&folders("/h", "/x", "")), "this daemon keeps its state in /s, not /x");
        assert_eq!(reason(&folders("", "", "/x")), "this daemon uses the configuration /c, not /x");
        assert!(own.mismatch(&folders("", "/x", "")).unwrap().hint.starts_with("set XDG_STATE_HOME as"));
    }
}
