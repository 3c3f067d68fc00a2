//! Networks of cores over links that the tests make and break.

mod bench;
mod bounds;
mod contract;
mod discovery;
mod errors;
mod gateway;
mod hello;
mod hostile;
mod loops;
mod restart;

use std::net::Ipv4Addr;
use std::time::Duration;

use base::rng::Rng;
use base::time::Time;
use bench::{Net, at, millis, node};
use proptest::prelude::*;

use super::super::{Arrival, Demand, Event, Interface, Neighbour, Notice, Passage, Router};
use super::wire::{Errors, Message, Reply, Request};
use super::*;
