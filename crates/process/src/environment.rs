//! The environment of programs that tools start. It is the session's, without variables of acpd, of
//! the editor's terminal and of model providers, and with settings that keep programs from waiting
//! for a user.

use std::collections::BTreeMap;
use std::path::Path;

use domain::{CallSite, Environment};

use crate::tag::{self, ProcessTag};

/// Prefixes of variables that programs do not get.
const HIDDEN_PREFIXES: [&str; 7] = ["ACPD_", "KITTY_", "WEZTERM_", "ITERM_", "KONSOLE_", "ALACRITTY_", "ZELLIJ_"];

/// Variables that describe a terminal other than the command's, and those that systemd sets for the
/// daemon.
const HIDDEN: [&str; 30] = [
    "TMUX",
    "TMUX_PANE",
    "STY",
    "WINDOW",
    "WINDOWID",
    "ZELLIJ",
    "TERM_PROGRAM",
    "TERM_PROGRAM_VERSION",
    "TERM_SESSION_ID",
    "LC_TERMINAL",
    "LC_TERMINAL_VERSION",
    "VTE_VERSION",
    "COLORTERM",
    "COLUMNS",
    "LINES",
    "TERMCAP",
    "WT_SESSION",
    "NVIM",
    "CI",
    "NOTIFY_SOCKET",
    "CREDENTIALS_DIRECTORY",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "MANAGERPID",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
    "LISTEN_PID",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
    "OLDPWD",
];

/// Variables that differ between terminals, logins and starts of an editor, and do not affect what
/// a server does. `SSH_AUTH_SOCK` is not among them, because it decides whose keys a server may
/// use.
const VOLATILE: [&str; 38] = [
    "_",
    "ATUIN_HISTORY_ID",
    "ATUIN_SESSION",
    "COLORFGBG",
    "DESKTOP_STARTUP_ID",
    "GIO_LAUNCHED_DESKTOP_FILE_PID",
    "GNOME_TERMINAL_SCREEN",
    "GNOME_TERMINAL_SERVICE",
    "GPG_TTY",
    "GUAKE_TAB_UUID",
    "HISTCMD",
    "INSIDE_EMACS",
    "LINENO",
    "MCFLY_SESSION_ID",
    "MEMORY_PRESSURE_WATCH",
    "MEMORY_PRESSURE_WRITE",
    "OLDPWD",
    "PPID",
    "PROMPT_COMMAND",
    "PS1",
    "PWD",
    "RANDOM",
    "SECONDS",
    "SESSION_MANAGER",
    "SHLVL",
    "SSH_CLIENT",
    "SSH_CONNECTION",
    "SSH_TTY",
    "STARSHIP_SESSION_KEY",
    "SYSTEMD_EXEC_PID",
    "TERMINATOR_UUID",
    "TILIX_ID",
    "TTY",
    "WINDOWPATH",
    "WT_PROFILE_ID",
    "XDG_ACTIVATION_TOKEN",
    "XDG_SESSION_ID",
    "XDG_VTNR",
];

/// Prefixes of further such variables, which terminals inside editors set.
const VOLATILE_PREFIXES: [&str; 4] = ["JEDITERM_", "NVIM_", "VSCODE_", "ZED_"];

/// API keys of model providers. Tokens that users set for command line tools, such as GITHUB_TOKEN,
/// are not among them, because `gh` is expected to work.
const PROVIDER_KEYS: [&str; 36] = [
    "AI_GATEWAY_API_KEY",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "AZURE_API_KEY",
    "AZURE_OPENAI_API_KEY",
    "CEREBRAS_API_KEY",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CO_API_KEY",
    "CODESTRAL_API_KEY",
    "COHERE_API_KEY",
    "DASHSCOPE_API_KEY",
    "DEEPINFRA_API_KEY",
    "DEEPSEEK_API_KEY",
    "FIREWORKS_API_KEY",
    "GEMINI_API_KEY",
    "GITHUB_COPILOT_TOKEN",
    "GOOGLE_API_KEY",
    "GOOGLE_GENERATIVE_AI_API_KEY",
    "GROQ_API_KEY",
    "KIMI_API_KEY",
    "MINIMAX_API_KEY",
    "MISTRAL_API_KEY",
    "MOONSHOT_API_KEY",
    "NVIDIA_API_KEY",
    "OLLAMA_API_KEY",
    "OPENAI_API_KEY",
    "OPENCODE_API_KEY",
    "OPENROUTER_API_KEY",
    "PERPLEXITY_API_KEY",
    "QWEN_API_KEY",
    "SAMBANOVA_API_KEY",
    "TOGETHER_API_KEY",
    "VOYAGE_API_KEY",
    "XAI_API_KEY",
    "ZAI_API_KEY",
    "ZHIPU_API_KEY",
];

/// Variables that are set because no user sits at the command's terminal: no pager, editor,
/// password prompt or colours.
const SET: [(&str, &str); 7] = [
    ("TERM", "dumb"),
    ("NO_COLOR", "1"),
    ("PAGER", "cat"),
    ("MANPAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("GIT_EDITOR", "true"),
    ("GIT_TERMINAL_PROMPT", "0"),
];

/// The git configuration of commands. A folder that merely looks like a bare repository (`HEAD`,
/// `objects`, `refs` and a `config` that names programs, all of which an edit can create) is
/// ignored, and no repository starts a file monitor.
const GIT_CONFIG: [(&str, &str); 2] = [("safe.bareRepository", "explicit"), ("core.fsmonitor", "false")];

/// The PATH for a session whose environment has none.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Which variables of a session programs get, and which daemon the programs belong to.
#[derive(Clone, Debug, Default)]
pub struct EnvironmentPolicy {
    /// The name of the daemon in the tag by which it recognises its commands.
    pub owner: String,
    /// Variables that are hidden in addition to the built-in ones.
    pub hidden: Vec<String>,
    /// Provider keys that are not hidden.
    pub kept: Vec<String>,
}

impl EnvironmentPolicy {
    /// Returns the environment of a program that is started in this folder for a session.
    pub fn for_programs(&self, session: &Environment, folder: &Path) -> BTreeMap<String, String> {
        let mut variables: BTreeMap<String, String> = session
            .iter()
            .filter(|(name, _)| !self.hides(name))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        variables.entry("PATH".to_owned()).or_insert_with(|| PATH.to_owned());
        // A shell reports its folder under this name if it is correct, and without symlinks
        // otherwise.
        variables.insert("PWD".to_owned(), folder.to_string_lossy().into_owned());
        variables.extend(SET.map(|(name, value)| (name.to_owned(), value.to_owned())));
        variables.extend(git_config(session));
        variables.insert(tag::VARIABLE.to_owned(), ProcessTag::of_owner(&self.owner).value());
        variables
    }

    /// Returns the environment of a child agent, which includes provider keys, because it talks to
    /// models itself.
    pub fn for_agents(&self, session: &Environment, folder: &Path) -> BTreeMap<String, String> {
        let kept = session.iter().map(|(name, _)| name.to_owned()).collect();
        EnvironmentPolicy { kept, ..self.clone() }.for_programs(session, folder)
    }

    /// Returns the variables to set in an editor's own terminal. ACP cannot unset a variable, so
    /// keys are set to an empty string.
    pub fn for_terminal(&self, site: &CallSite) -> Vec<(String, String)> {
        let keys = site.environment.iter().map(|(name, _)| name).filter(|name| self.is_key(name));
        let keys = keys.map(|name| (name.to_owned(), String::new()));
        // The editor's terminal is a real one, so TERM is not changed.
        let set = SET.iter().filter(|(name, _)| *name != "TERM");
        let set = set.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let tag = (tag::VARIABLE.to_owned(), ProcessTag::of_owner(&self.owner).value());
        keys.chain(set).chain(git_config(&site.environment)).chain([tag]).collect()
    }

    fn hides(&self, name: &str) -> bool {
        self.is_key(name) || HIDDEN.contains(&name) || HIDDEN_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    }

    /// Returns whether a variable is a hidden key. One in `kept` never is, even if it is also in
    /// `hidden`.
    fn is_key(&self, name: &str) -> bool {
        let is_in = |names: &[String]| names.iter().any(|known| known == name);
        !is_in(&self.kept) && (PROVIDER_KEYS.contains(&name) || is_in(&self.hidden))
    }
}

/// Returns the variables that add our git configuration after the entries that the session already
/// has.
fn git_config(session: &Environment) -> Vec<(String, String)> {
    let first: usize = session.get("GIT_CONFIG_COUNT").and_then(|count| count.parse().ok()).unwrap_or(0);
    let mut variables = vec![("GIT_CONFIG_COUNT".to_owned(), (first + GIT_CONFIG.len()).to_string())];
    for (index, (key, value)) in GIT_CONFIG.into_iter().enumerate() {
        variables.push((format!("GIT_CONFIG_KEY_{}", first + index), key.to_owned()));
        variables.push((format!("GIT_CONFIG_VALUE_{}", first + index), value.to_owned()));
    }
    variables
}

/// Returns whether sessions may share a program although they differ in this variable.
pub fn is_volatile(name: &str) -> bool {
    VOLATILE.contains(&name)
        || HIDDEN.contains(&name)
        || [HIDDEN_PREFIXES.as_slice(), &VOLATILE_PREFIXES].concat().iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_gets_its_configuration_after_the_users_own() {
        let session = [("GIT_CONFIG_COUNT", "1"), ("GIT_CONFIG_KEY_0", "a.b"), ("GIT_CONFIG_VALUE_0", "c")];
        let session: Environment = session.map(|(n, v)| (n.to_owned(), v.to_owned())).into_iter().collect();
        let variables = EnvironmentPolicy::default().for_programs(&session, Path::new("/project"));
        let shown = |name: &str| variables.get(name).map(String::as_str);
        assert_eq!((shown("GIT_CONFIG_COUNT"), shown("GIT_CONFIG_KEY_0")), (Some("3"), Some("a.b")));
        assert_eq!(
            (shown("GIT_CONFIG_KEY_1"), shown("GIT_CONFIG_VALUE_1")),
            (Some("safe.bareRepository"), Some("explicit"))
        );
    }

    #[test]
    fn keys_and_panes_are_left_out_and_the_rest_is_kept() {
        let policy = EnvironmentPolicy {
            owner: String::new(),
            hidden: ["MY_SECRET", "MY_TOKEN"].map(str::to_owned).to_vec(),
            kept: ["MISTRAL_API_KEY", "MY_TOKEN"].map(str::to_owned).to_vec(),
        };
        let session = [
            "ACPD_SOCKET",
            "ANTHROPIC_API_KEY",
            "CI",
            "GH_TOKEN",
            "HOME",
            "KITTY_PID",
            "MISTRAL_API_KEY",
            "MY_SECRET",
            "MY_TOKEN",
            "TMUX",
        ];
        let session: Environment = session.map(|name| (name.to_owned(), "x".to_owned())).into_iter().collect();
        let variables = policy.for_programs(&session, Path::new("/project"));
        let names: Vec<_> = variables.keys().map(String::as_str).collect();
        assert_eq!(
            names.join(" "),
            "ACPD_TOOL GH_TOKEN GIT_CONFIG_COUNT GIT_CONFIG_KEY_0 GIT_CONFIG_KEY_1 GIT_CONFIG_VALUE_0 GIT_CONFIG_VALUE_1 GIT_EDITOR GIT_PAGER GIT_TERMINAL_PROMPT HOME MANPAGER MISTRAL_API_KEY MY_TOKEN NO_COLOR PAGER PATH PWD TERM"
        );
    }
}
