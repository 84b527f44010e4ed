//! Every method name, both directions. Nothing else in the project spells one.

// Requests of a client.
pub const INITIALIZE: &str = "initialize";
pub const AUTHENTICATE: &str = "authenticate";
pub const LOGOUT: &str = "logout";
pub const SESSION_NEW: &str = "session/new";
pub const SESSION_LOAD: &str = "session/load";
pub const SESSION_RESUME: &str = "session/resume";
pub const SESSION_FORK: &str = "session/fork";
pub const SESSION_LIST: &str = "session/list";
/// Another name for `session/list`.
pub const SESSIONS_LIST: &str = "sessions/list";
pub const SESSION_PROMPT: &str = "session/prompt";
pub const SESSION_CLOSE: &str = "session/close";
pub const SESSION_DELETE: &str = "session/delete";
pub const SESSION_SET_MODE: &str = "session/set_mode";
pub const SESSION_SET_MODEL: &str = "session/set_model";
pub const SESSION_SET_CONFIG_OPTION: &str = "session/set_config_option";
/// Another name for `session/set_config_option`.
pub const CONFIG_SET: &str = "config/set";

// Our extensions, which may come before `initialize`.
pub const HELLO: &str = "_acpd/hello";
pub const SESSIONS: &str = "_acpd/sessions";
pub const CONNECTIONS: &str = "_acpd/connections";
pub const STATUS: &str = "_acpd/status";
pub const STOP: &str = "_acpd/stop";
pub const RESTART: &str = "_acpd/restart";
pub const RESUME: &str = "_acpd/resume";
pub const CANCEL: &str = "_acpd/cancel";
pub const ANSWER: &str = "_acpd/answer";
pub const CLOSE: &str = "_acpd/close";
pub const DELETE: &str = "_acpd/delete";
pub const RENAME: &str = "_acpd/rename";
pub const EXPORT: &str = "_acpd/export";
pub const IMPORT: &str = "_acpd/import";
pub const PERMISSIONS: &str = "_acpd/permissions";
pub const UNDO: &str = "_acpd/undo";
pub const EXTENSIONS: [&str; 16] = [
    HELLO,
    SESSIONS,
    CONNECTIONS,
    STATUS,
    STOP,
    RESTART,
    RESUME,
    CANCEL,
    ANSWER,
    CLOSE,
    DELETE,
    RENAME,
    EXPORT,
    IMPORT,
    PERMISSIONS,
    UNDO,
];

// Notifications of a client.
pub const SESSION_CANCEL: &str = "session/cancel";

// Both ways: a notification that withdraws a request.
pub const CANCEL_REQUEST: &str = "$/cancel_request";

// What we send to a bridge.
/// The daemon leaves because it was told to; see `docs/protocol.md`.
pub const GOODBYE: &str = "_acpd/goodbye";

// What we send to a client.
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
