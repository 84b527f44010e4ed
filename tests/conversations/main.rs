//! Conversations between scripted editors and real actors, one file per theme. Each test checks a
//! whole transcript.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod agents;
mod agreeing;
mod anything;
mod attaching;
mod authentication;
mod blocks;
mod commands;
mod crashes;
mod custom;
mod dialects;
mod durability;
mod errors;
mod extras;
mod five_steps;
mod helping;
mod hooks;
mod lifetimes;
mod news;
mod opening;
mod params;
mod partial_calls;
mod permissions;
mod project;
mod providers;
mod returning;
mod rules;
mod server_trouble;
mod servers;
mod sessions;
mod sharing;
mod strangers;
mod switching;
mod traces;
mod turns;
mod undoing;
mod waiting;
mod wires;
mod withdrawing;
mod workshop;
