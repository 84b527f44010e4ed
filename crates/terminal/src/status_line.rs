//! The status line below a conversation: model, mode, folder, context used, cost.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::table::one_line;

#[derive(Clone, Debug, Default)]
pub struct StatusLine {
    pub model: String,
    pub mode: String,
    pub approval: String,
    pub folder: PathBuf,
    pub home: PathBuf,
    /// The number of tokens in the model's window, and the size of the window.
    window: Option<(u64, u64)>,
    cost: Option<(f64, String)>,
}

impl StatusLine {
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, ..Self::default() }
    }

    /// Records an update that changes a setting or the usage.
    pub fn update(&mut self, update: &Value) {
        match update["sessionUpdate"].as_str().unwrap_or_default() {
            "current_mode_update" => set(&mut self.mode, &update["currentModeId"]),
            "config_option_update" => self.options(&update["configOptions"]),
            "usage_update" => {
                self.window = update["used"].as_u64().zip(update["size"].as_u64()).filter(|(_, size)| *size > 0);
                let cost = &update["cost"];
                self.cost = cost["amount"].as_f64().zip(cost["currency"].as_str().map(str::to_owned));
            }
            _ => {}
        }
    }

    /// Reads the settings from the options of a session.
    pub fn options(&mut self, options: &Value) {
        for option in options.as_array().into_iter().flatten() {
            match option["id"].as_str() {
                Some("model") => set(&mut self.model, &option["currentValue"]),
                Some("mode") => set(&mut self.mode, &option["currentValue"]),
                Some("approval") => set(&mut self.approval, &option["currentValue"]),
                _ => {}
            }
        }
    }

    /// Lists what the session has used so far.
    pub fn used(&self) -> Vec<String> {
        let window = self.window.map(|(used, size)| {
            let percent = used * 100 / size;
            format!("{percent}% of {}", short(size))
        });
        let cost = self.cost.as_ref().map(|(amount, currency)| format!("{amount:.4} {currency}"));
        window.into_iter().chain(cost).collect()
    }

    /// Formats the parts that fit the width. The folder is omitted first, then the mode.
    pub fn render(&self, width: usize) -> String {
        let folder = match self.folder.strip_prefix(&self.home) {
            Ok(below) if below.as_os_str().is_empty() => "~".to_owned(),
            Ok(below) => Path::new("~").join(below).display().to_string(),
            Err(_) => self.folder.display().to_string(),
        };
        let mode = if self.approval.is_empty() || self.approval == "ask" {
            self.mode.clone()
        } else {
            format!("{}, {}", self.mode, self.approval)
        };
        let used = self.used();
        let all = |parts: &[&str]| {
            let parts = parts.iter().map(|part| one_line(part)).chain(used.iter().cloned());
            parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ")
        };
        let wide = [all(&[&self.model, &mode, &folder]), all(&[&self.model, &mode]), all(&[&self.model])];
        let fits = |text: &&String| text.chars().count() <= width;
        wide.iter().find(fits).or(wide.last()).cloned().unwrap_or_default()
    }
}

fn set(field: &mut String, value: &Value) {
    if let Some(text) = value.as_str() {
        text.clone_into(field);
    }
}

fn short(tokens: u64) -> String {
    match tokens {
        0..1000 => tokens.to_string(),
        1000..1_000_000 => format!("{}k", tokens / 1000),
        _ => format!("{}M", tokens / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_fits_is_shown_and_the_model_always() {
        let mut status =
            StatusLine { folder: "/home/me/hello".into(), home: "/home/me".into(), ..StatusLine::default() };
        status.options(&json!([{ "id": "model", "currentValue": "p/m" }, { "id": "mode", "currentValue": "full" },
            { "id": "approval", "currentValue": "ask" }]));
        assert_eq!(status.render(80), "p/m · full · ~/hello");
        status.update(&json!({ "sessionUpdate": "usage_update", "used": 12_000, "size": 200_000,
            "cost": { "amount": 0.0123, "currency": "USD" } }));
        status.update(&json!({ "sessionUpdate": "current_mode_update", "currentModeId": "safe" }));
        assert_eq!(status.render(80), "p/m · safe · ~/hello · 6% of 200k · 0.0123 USD");
        assert_eq!(status.render(40), "p/m · safe · 6% of 200k · 0.0123 USD");
        assert_eq!(status.render(20), "p/m · 6% of 200k · 0.0123 USD");
        status.approval = "never".to_owned();
        assert!(status.render(80).contains("safe, never"));
    }
}
