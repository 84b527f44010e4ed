//! The client side of MCP: tools, prompts and resources of other programs, for the sessions that
//! use them.
//!
//! `host` is the entry point. A session's servers are those that its editor passed, those of the
//! user's configuration and, if the user trusts the folder, those of the project (`server_group`).
//! Sessions share a server only if nothing about it differs (`server_key`). All communication
//! happens on one thread (`process::IoThread`). `link` is the state of a server that sessions and
//! the supervisor share, and `supervisor` connects and reconnects the server. Programs run under
//! `process`, so none outlives the last session that uses it. `login` is about the user's logins to
//! remote servers.

mod bounded_transport;
mod client_handler;
mod hidden;
mod host;
mod lenient;
mod limited_http;
mod link;
mod login;
mod message_budget;
mod names;
mod offer;
mod private_file;
mod project_file;
mod prompt_context;
mod prompts;
mod refusals;
mod remote;
mod responses;
mod server_group;
mod server_key;
mod server_log;
mod settings;
mod stdio;
mod stored_servers;
mod supervisor;
mod tool_call;
mod tool_result;

pub use host::McpHost;
pub use login::{
    Login, LoginError, LoginTarget, PendingLogin, RedirectListener, Redirected, SplitLogin, StoredFile, StoredLogins,
};
pub use names::PREFIX;
pub use settings::{HostSettings, McpSettings, OauthSettings, ServerSettings};
