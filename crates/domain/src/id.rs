//! Newtype ids. Each is a short string that is cheap to clone. New ids are time-ordered UUIDs.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Creates an id that is unique across daemon lives.
            pub fn new() -> Self {
                Self(uuid::Uuid::now_v7().to_string().into())
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

id!(
    /// One conversation, for as long as its history exists.
    SessionId
);
id!(
    /// One prompt and everything that follows from it. The connection that sends the prompt chooses
    /// the id.
    TurnId
);
id!(
    /// One sub-agent of a session, as the model names it.
    AgentId
);
id!(
    /// One tool call of the model.
    CallId
);
id!(
    /// One message of the user, or one response of the model.
    MessageId
);
id!(
    /// One permission question.
    QuestionId
);
id!(
    /// One client's connection to the daemon.
    ConnectionId
);
id!(
    /// A model as users name it, `provider/model` or a bare name.
    ModelId
);

/// The position of an event in its session's log.
///
/// Numbers grow by one within a session. A session that is opened after an unclean end starts a new
/// life. A client may have seen an event that never reached the disk, and the life tells it apart
/// from the later event with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LogPosition {
    pub life: u32,
    pub number: u64,
}
