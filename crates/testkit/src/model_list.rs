//! A fixed list of models, and the default model of new sessions.
//!
//! It owns the list and nothing else: each model knows how to answer and where its keys are.

use std::sync::Arc;

use domain::model::{Catalogue, Model, ModelInfo};
use domain::{Environment, ModelId};

pub struct ModelList {
    models: Vec<Arc<dyn Model>>,
    /// Always the id of one of `models`.
    default: ModelId,
}

impl ModelList {
    /// Creates a list with a default.
    ///
    /// # Panics
    ///
    /// If no model has the id `default`. A caller that reads the id from a configuration must check
    /// it there, where the error can name the file and the key.
    pub fn new(models: Vec<Arc<dyn Model>>, default: impl Into<ModelId>) -> Self {
        let default = default.into();
        let list = Self { models, default };
        assert!(list.find(&list.default).is_some(), "the default model {} is not on the list", list.default);
        list
    }
}

impl Catalogue for ModelList {
    fn list(&self, _environment: &Environment) -> Vec<ModelInfo> {
        self.models.iter().map(|model| model.info().clone()).collect()
    }

    fn find(&self, id: &ModelId) -> Option<Arc<dyn Model>> {
        self.models.iter().find(|model| model.info().id == *id).cloned()
    }

    fn default_model(&self, _environment: &Environment) -> ModelId {
        self.default.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Script;

    fn list() -> ModelList {
        ModelList::new(vec![Arc::new(Script::new("one", vec![])), Arc::new(Script::new("two", vec![]))], "two")
    }

    #[test]
    fn models_are_listed_in_the_order_given() {
        let ids: Vec<_> = list().list(&Environment::default()).into_iter().map(|info| info.id.to_string()).collect();
        assert_eq!(ids, ["one", "two"]);
    }

    #[test]
    fn a_model_is_found_by_its_id_and_by_nothing_else() {
        assert_eq!(list().find(&"one".into()).unwrap().info().id, "one".into());
        assert!(list().find(&"ONE".into()).is_none());
    }

    #[test]
    fn a_new_session_gets_the_default_model() {
        assert_eq!(list().default_model(&Environment::default()), "two".into());
    }

    #[test]
    #[should_panic(expected = "the default model three is not on the list")]
    fn a_default_that_is_not_on_the_list_is_refused_at_once() {
        ModelList::new(vec![Arc::new(Script::new("one", vec![]))], "three");
    }
}
