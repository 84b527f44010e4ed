//! A model at a provider: the one way in which both dialects are asked.
//!
//! A `Dialect` says what is sent and how the answer is read; keys, retries and reading belong to `answer`.

use std::marker::PhantomData;
use std::sync::Arc;

use domain::model::{Delta, Model, ModelError, ModelInfo, ModelRequest};
use futures_util::stream::BoxStream;
use serde_json::Value;

use crate::answer::{self, Fold, Question};
use crate::known::Spec;
use crate::service::Service;

pub(crate) trait Dialect: Send + Sync + 'static {
    type Fold: Fold;

    /// Where requests go, below the provider's address.
    const PATH: &'static str;

    fn body(spec: &Spec, service: &Service, request: &ModelRequest) -> Value;

    /// Reads the answer of the provider of this name.
    fn fold(provider: &str) -> Self::Fold;

    /// Changes the body so that a provider with this complaint may take it; false if it cannot.
    fn concede(body: &mut Value, complaint: &str) -> bool;
}

pub(crate) struct Remote<D> {
    spec: Spec,
    service: Arc<Service>,
    dialect: PhantomData<D>,
}

impl<D: Dialect> Remote<D> {
    pub(crate) fn new(spec: Spec, service: Arc<Service>) -> Self {
        Self { spec, service, dialect: PhantomData }
    }
}

impl<D: Dialect> Model for Remote<D> {
    fn info(&self) -> &ModelInfo {
        &self.spec.info
    }

    fn respond(&self, request: ModelRequest) -> BoxStream<'static, Result<Delta, ModelError>> {
        let provider = self.service.name.clone();
        let question = Question {
            service: self.service.clone(),
            model: self.spec.wire.clone(),
            path: D::PATH,
            environment: request.environment.clone(),
            fold: Box::new(move || D::fold(&provider)),
            concede: D::concede,
        };
        let (spec, service) = (self.spec.clone(), self.service.clone());
        answer::stream(question, move || D::body(&spec, &service, &request))
    }
}
