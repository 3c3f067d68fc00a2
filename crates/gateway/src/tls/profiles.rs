//! Loads the profiles of a configuration with their files, and reloads them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::client::Client;
use super::files::BadFile;
use super::profile::{Profile, Role};
use super::server::Server;

/// The profiles of a configuration, their files loaded.
#[derive(Clone, Debug, Default)]
pub struct Profiles {
    clients: BTreeMap<String, Arc<Client>>,
    servers: BTreeMap<String, Arc<Server>>,
}

impl Profiles {
    /// Loads and checks all files.
    ///
    /// # Errors
    /// When one cannot be used.
    pub fn load(profiles: &[Profile]) -> Result<Self, BadFile> {
        let mut loaded = Self::default();
        for Profile { name, role } in profiles {
            match role {
                Role::Client(client) => {
                    loaded.clients.insert(name.clone(), Arc::new(Client::load(client)?));
                }
                Role::Server(server) => {
                    loaded.servers.insert(name.clone(), Arc::new(Server::load(server)?));
                }
            }
        }
        Ok(loaded)
    }

    /// Loads all files anew, for sessions that begin from now on; existing sessions keep their files.
    ///
    /// # Errors
    /// When a file cannot be used: nothing has changed.
    pub fn reload(&mut self, profiles: &[Profile]) -> Result<(), BadFile> {
        *self = Self::load(profiles)?;
        Ok(())
    }

    /// The client of this name.
    #[must_use]
    pub fn client(&self, name: &str) -> Option<&Arc<Client>> {
        self.clients.get(name)
    }

    /// The server of this name.
    #[must_use]
    pub fn server(&self, name: &str) -> Option<&Arc<Server>> {
        self.servers.get(name)
    }
}
