//! A value that can be replaced while others use it. A reader keeps the value that it has loaded.
//!
//! A swap of a port implements that port, so the actors do not notice when the configuration is
//! reloaded.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::account::{AccountError, Accounts, DeviceLogin, KeyVariable};
use crate::instructions::{
    Expansion, Instructions, LibraryCard, SessionContext, SlashCommandCard, SystemPrompt, TypedSlashCommand, Workspace,
};
use crate::model::{Catalogue, Model, ModelInfo};
use crate::worktree::{
    EnteredWorktree, RemovedWorktree, Worktree, WorktreeError, WorktreeRequest, WorktreeStatus, Worktrees,
};
use crate::{Environment, ModelId};

/// A replaceable value.
pub struct Swap<T>(RwLock<Arc<T>>);

impl<T> Swap<T> {
    pub fn new(first: T) -> Self {
        Self(RwLock::new(Arc::new(first)))
    }

    pub fn get(&self) -> Arc<T> {
        // Nothing can panic while the lock is held, and an `Arc` is always consistent.
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn replace(&self, next: impl Into<Arc<T>>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = next.into();
    }
}

impl<T> From<Arc<T>> for Swap<T> {
    fn from(first: Arc<T>) -> Self {
        Self(RwLock::new(first))
    }
}

impl<T: fmt::Debug> fmt::Debug for Swap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

impl<T: Catalogue> Catalogue for Swap<T> {
    fn list(&self, environment: &Environment) -> Vec<ModelInfo> {
        self.get().list(environment)
    }

    fn find(&self, id: &ModelId) -> Option<Arc<dyn Model>> {
        self.get().find(id)
    }

    fn default_model(&self, environment: &Environment) -> ModelId {
        self.get().default_model(environment)
    }

    fn offers(&self, id: &ModelId, environment: &Environment) -> bool {
        self.get().offers(id, environment)
    }

    fn wait_for_lists(&self, environment: &Environment, within: Duration) -> BoxFuture<'static, ()> {
        self.get().wait_for_lists(environment, within)
    }

    fn correction(&self, id: &ModelId, environment: &Environment) -> Option<ModelId> {
        self.get().correction(id, environment)
    }

    fn fallback(&self, id: &ModelId, environment: &Environment) -> Option<ModelId> {
        self.get().fallback(id, environment)
    }

    fn remarks(&self, id: &ModelId, environment: &Environment) -> Vec<String> {
        self.get().remarks(id, environment)
    }
}

impl<T: Instructions> Instructions for Swap<T> {
    fn system_prompt(&self, workspace: Workspace, model: ModelId) -> BoxFuture<'static, SystemPrompt> {
        self.get().system_prompt(workspace, model)
    }

    fn environment_facts(&self, context: SessionContext) -> Option<BoxFuture<'static, String>> {
        self.get().environment_facts(context)
    }

    fn library(&self, workspace: Workspace) -> BoxFuture<'static, LibraryCard> {
        self.get().library(workspace)
    }

    fn commands(&self, workspace: Workspace) -> BoxFuture<'static, Vec<SlashCommandCard>> {
        self.get().commands(workspace)
    }

    fn expand(&self, workspace: Workspace, call: TypedSlashCommand) -> BoxFuture<'static, Option<Expansion>> {
        self.get().expand(workspace, call)
    }
}

impl<T: Accounts> Accounts for Swap<T> {
    fn variables(&self) -> Vec<KeyVariable> {
        self.get().variables()
    }

    fn is_authenticated(&self, environment: &Environment) -> BoxFuture<'static, bool> {
        self.get().is_authenticated(environment)
    }

    fn begin_login(&self) -> BoxFuture<'static, Result<DeviceLogin, AccountError>> {
        self.get().begin_login()
    }

    fn forget(&self) -> BoxFuture<'static, Result<(), AccountError>> {
        self.get().forget()
    }
}

impl<T: Worktrees> Worktrees for Swap<T> {
    fn enter(
        &self,
        request: WorktreeRequest,
        name: Option<String>,
    ) -> BoxFuture<'static, Result<EnteredWorktree, WorktreeError>> {
        self.get().enter(request, name)
    }

    fn find(&self, request: WorktreeRequest, name: String) -> BoxFuture<'static, Result<Worktree, WorktreeError>> {
        self.get().find(request, name)
    }

    fn status(
        &self,
        request: WorktreeRequest,
        worktree: Option<Worktree>,
    ) -> BoxFuture<'static, Result<WorktreeStatus, WorktreeError>> {
        self.get().status(request, worktree)
    }

    fn merge(&self, request: WorktreeRequest, worktree: Worktree) -> BoxFuture<'static, Result<u64, WorktreeError>> {
        self.get().merge(request, worktree)
    }

    fn check_removal(
        &self,
        request: WorktreeRequest,
        worktree: Worktree,
        with_ignored: bool,
    ) -> BoxFuture<'static, Result<(), WorktreeError>> {
        self.get().check_removal(request, worktree, with_ignored)
    }

    fn remove(
        &self,
        request: WorktreeRequest,
        worktree: Worktree,
    ) -> BoxFuture<'static, Result<RemovedWorktree, WorktreeError>> {
        self.get().remove(request, worktree)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loaded_value_outlives_its_replacement() {
        let swap = Swap::new("old");
        let taken = swap.get();
        swap.replace("new");
        assert_eq!((*taken, *swap.get()), ("old", "new"));
    }
}
