//! The names of all methods, in both directions. No other file of the program spells one.

// Requests of a client.
pub const INITIALIZE: &str = "initialize";
pub const AUTHENTICATE: &str = "authenticate";
pub const LOGOUT: &str = "logout";
/// In version 2 only.
pub const AUTH_LOGIN: &str = "auth/login";
/// In version 2 only.
pub const AUTH_LOGOUT: &str = "auth/logout";
/// Version 2 only: ends one tool call.
pub const TOOL_CALL_CANCEL: &str = "tool_call/cancel";
/// Version 2 only: ends the command in one of acpd's terminals.
pub const TERMINAL_CANCEL: &str = "terminal/cancel";
pub const SESSION_NEW: &str = "session/new";
pub const SESSION_LOAD: &str = "session/load";
pub const SESSION_RESUME: &str = "session/resume";
pub const SESSION_FORK: &str = "session/fork";
pub const SESSION_LIST: &str = "session/list";
/// Another name for `session/list`.
pub const SESSIONS_LIST: &str = "sessions/list";
pub const SESSION_PROMPT: &str = "session/prompt";
/// A prompt that joins the running turn, by a convention of other agents.
pub const SESSION_STEERING: &str = "_session/steering";
pub const SESSION_CLOSE: &str = "session/close";
pub const SESSION_DELETE: &str = "session/delete";
pub const SESSION_SET_MODE: &str = "session/set_mode";
pub const SESSION_SET_MODEL: &str = "session/set_model";
pub const SESSION_SET_CONFIG_OPTION: &str = "session/set_config_option";
/// Another name for `session/set_config_option`.
pub const CONFIG_SET: &str = "config/set";

// acpd's extensions, which may come before `initialize`.
pub const HELLO: &str = "_acpd/hello";
pub const SESSIONS: &str = "_acpd/sessions";
pub const CONNECTIONS: &str = "_acpd/connections";
pub const STATUS: &str = "_acpd/status";
pub const STOP: &str = "_acpd/stop";
pub const RESTART: &str = "_acpd/restart";
pub const RELOAD: &str = "_acpd/reload";
pub const RESUME: &str = "_acpd/resume";
pub const CANCEL: &str = "_acpd/cancel";
pub const ANSWER: &str = "_acpd/answer";
pub const CLOSE: &str = "_acpd/close";
pub const DELETE: &str = "_acpd/delete";
pub const RENAME: &str = "_acpd/rename";
pub const EXPORT: &str = "_acpd/export";
pub const IMPORT: &str = "_acpd/import";
/// Answered when a session that the client has open is evicted from memory.
pub const WAIT: &str = "_acpd/wait";
pub const MCP: &str = "_acpd/mcp";
pub const PERMISSIONS: &str = "_acpd/permissions";
pub const UNDO: &str = "_acpd/undo";
pub const SESSION: &str = "_acpd/session";
pub const MODELS: &str = "_acpd/models";
pub const EXTENSIONS: [&str; 21] = [
    HELLO,
    SESSIONS,
    CONNECTIONS,
    STATUS,
    STOP,
    RESTART,
    RELOAD,
    RESUME,
    CANCEL,
    ANSWER,
    CLOSE,
    DELETE,
    RENAME,
    EXPORT,
    IMPORT,
    WAIT,
    MCP,
    PERMISSIONS,
    UNDO,
    SESSION,
    MODELS,
];

// Notifications of a client.
pub const SESSION_CANCEL: &str = "session/cancel";

// In both directions: a notification that withdraws a request.
pub const CANCEL_REQUEST: &str = "$/cancel_request";

// Notifications to a bridge.
/// The daemon stops on request; see `docs/protocol.md`.
pub const GOODBYE: &str = "_acpd/goodbye";

// Requests and notifications to a client.
pub const SESSION_UPDATE: &str = "session/update";
pub const SESSION_REQUEST_PERMISSION: &str = "session/request_permission";
pub const ELICITATION_CREATE: &str = "elicitation/create";
pub const ELICITATION_COMPLETE: &str = "elicitation/complete";
pub const FS_READ_TEXT_FILE: &str = "fs/read_text_file";
pub const FS_WRITE_TEXT_FILE: &str = "fs/write_text_file";
pub const TERMINAL_CREATE: &str = "terminal/create";
pub const TERMINAL_OUTPUT: &str = "terminal/output";
pub const TERMINAL_WAIT_FOR_EXIT: &str = "terminal/wait_for_exit";
pub const TERMINAL_KILL: &str = "terminal/kill";
pub const TERMINAL_RELEASE: &str = "terminal/release";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use conformance::{V1, V2};

    const PAGE: &str = include_str!("../../../docs/protocol.md");

    /// Whether the page has a row for the name, with a test or with the reason why it is not
    /// offered.
    fn has_row(page: &str, name: &str) -> bool {
        page.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | ")).any(|(first, rest)| {
            let is_test = |word: &str| word.matches('_').count() >= 3 && !word.contains(' ');
            let proven = rest.split('`').skip(1).step_by(2).any(is_test);
            let refused =
                rest.split_once("not offered: ").is_some_and(|(_, why)| why.trim_matches([' ', '|']).len() > 10);
            first.contains(&format!("`{name}`")) && (proven || refused)
        })
    }

    #[test]
    fn every_method_and_update_of_both_schemas_has_a_row_on_the_page() {
        let (before, rest) = PAGE.split_once("\n## Version 2\n").unwrap();
        let (second, after) = rest.split_once("\n## ").unwrap();
        for (version, schema, page) in [(1, &V1, format!("{before}{after}")), (2, &V2, second.to_owned())] {
            let known: BTreeSet<&str> = schema.methods().chain(schema.updates()).collect();
            let missing: Vec<&&str> = known.iter().filter(|name| !has_row(&page, name)).collect();
            assert!(missing.is_empty(), "docs/protocol.md has no row of version {version} for {missing:?}");
        }
    }

    #[test]
    fn every_definition_of_both_schemas_has_a_row_on_the_page() {
        let (_, rest) = PAGE.split_once("\n## Definitions of the schemas\n").unwrap();
        let (table, _) = rest.split_once("\n## ").unwrap();
        let known: BTreeSet<&str> = V1.definitions().chain(V2.definitions()).collect();
        let missing: Vec<&&str> = known.iter().filter(|name| !has_row(table, name)).collect();
        assert!(known.len() > 200 && missing.is_empty(), "docs/protocol.md has no row for {missing:?}");
    }

    #[test]
    fn a_row_without_a_test_or_a_reason_does_not_count() {
        assert!(has_row("| `a/b` | works | `it_does_what_it_says` |", "a/b"));
        assert!(has_row("| `a/b`, `c` | not offered: nobody has asked for it |", "c"));
        for page in ["`a/b`", "| `a/b` | works | |", "| `a/b` | not offered: |", "| x | `a/b` `it_does_what_it_says` |"]
        {
            assert!(!has_row(page, "a/b"), "{page}");
        }
    }
}
