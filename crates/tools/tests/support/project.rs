//! A folder with files in it, and the registry with a session there.

#![allow(dead_code, reason = "not every test file uses all of it")]

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use acpd_tools::{Registry, ToolSettings};
use domain::CallSite;
use serde_json::Value;
use tempfile::TempDir;

use crate::host::{self, call, plan, refusal};

pub(crate) struct Project {
    pub(crate) folder: TempDir,
    pub(crate) registry: Registry,
    pub(crate) site: Arc<CallSite>,
}

impl Project {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let folder = TempDir::new().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let site = Arc::new(host::site(folder.path(), &[]));
        Self { folder, registry: Registry::new(ToolSettings::new("/nonexistent")), site }
    }

    /// The same with rules of the configuration.
    pub(crate) fn ruled(mut self, rules: Value) -> Self {
        let mut settings = ToolSettings::new("/nonexistent");
        settings.permissions = serde_json::from_value(rules).unwrap();
        self.registry = Registry::new(settings);
        self
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    pub(crate) fn text(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    pub(crate) async fn call(&self, tool: &str, input: Value) -> String {
        call(&self.registry, &self.site, tool, input).await.text
    }

    pub(crate) async fn refusal(&self, tool: &str, input: Value) -> String {
        refusal(&self.registry, &self.site, tool, input).await
    }

    pub(crate) async fn title(&self, tool: &str, input: Value) -> String {
        plan(&self.registry, &self.site, tool, input)
            .await
            .unwrap_or_else(|r| panic!("{}", r.reason))
            .card()
            .title
            .clone()
    }
}
