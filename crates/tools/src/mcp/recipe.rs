//! All that makes a server what it is. Two sessions share one only if nothing of this differs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use domain::mcp::{Outfit, Way};

use crate::{Settings, environment};

/// Holds keys; there is no `Debug`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Recipe {
    pub(super) folder: PathBuf,
    pub(super) reach: Reach,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum Reach {
    Program { command: String, args: Vec<String>, environment: BTreeMap<String, String> },
    Http { url: String, headers: Vec<(String, String)> },
    Sse { url: String, headers: Vec<(String, String)> },
}

impl Recipe {
    /// A program gets the session's environment without what is kept from tools, and its own variables on top.
    pub(super) fn new(way: Way, outfit: &Outfit, settings: &Settings) -> Self {
        let mut folder = outfit.cwd.clone();
        let reach = match way {
            Way::Stdio { command, args, env, cwd } => {
                if let Some(cwd) = cwd {
                    folder = folder.join(cwd);
                }
                let mut environment = environment::for_programs(&outfit.environment, &folder, settings);
                environment.extend(env);
                Reach::Program { command, args, environment }
            }
            Way::Http { url, headers } => Reach::Http { url, headers },
            Way::Sse { url, headers } => Reach::Sse { url, headers },
        };
        Self { folder, reach }
    }
}
