//! The search space of settings: a value for each parameter, or the file's own value.

use toml_edit::Value;

use super::file::File;
use super::key::Key;
use super::range::{Asked, Choice, Values};

/// A parameter that is tuned.
#[derive(Clone, Debug)]
pub struct Axis {
    /// The name of the parameter, as given by the user.
    pub name: String,
    /// Its keys, found in the file.
    pub keys: Vec<Key>,
    /// What is tried.
    pub values: Values,
}

/// All parameters.
#[derive(Clone, Debug)]
pub struct Space {
    /// In the order in which they were asked for.
    pub axes: Vec<Axis>,
}

/// A value for each parameter; none is what the file says.
#[derive(Clone, Debug)]
pub struct Setting(pub Vec<Option<Choice>>);

impl Space {
    /// Finds the keys of all parameters, and checks each value of the grid with the file's reader.
    ///
    /// # Errors
    /// For the first mistake: an unknown key, or a refused value.
    pub fn new(file: &File, asked: Vec<Asked>) -> Result<Self, String> {
        let mut axes: Vec<Axis> = Vec::new();
        for Asked { name, keys, values } in asked {
            let [first, last] = values.ends();
            let tried = keys.iter().zip(first.values.iter().zip(&last.values));
            let keys: Vec<Key> = tried
                .map(|(key, (first, last))| file.find(key, [first, last]))
                .collect::<Result<_, _>>()
                .map_err(|why| format!("{name}: {why}"))?;
            for key in &keys {
                if axes.iter().any(|axis| axis.keys.contains(key)) {
                    return Err(format!("{name}: {key} is tuned twice"));
                }
            }
            axes.push(Axis { name, keys, values });
        }
        if axes.is_empty() {
            return Err("nothing is to be tuned".to_owned());
        }
        let space = Self { axes };
        for (place, axis) in space.axes.iter().enumerate() {
            for choice in axis.values.grid() {
                let setting = space.as_written().with(place, choice.clone());
                let changes = space.changes(&setting);
                let Err(why) = file.with(&changes) else { continue };
                // This value may need values of other parameters.
                if space.axes.len() == 1 || !why.contains("not allowed together") {
                    return Err(format!("{} = {}: {why}", axis.name, choice.label));
                }
            }
        }
        Ok(space)
    }

    /// The file as it is.
    #[must_use]
    pub fn as_written(&self) -> Setting {
        Setting(vec![None; self.axes.len()])
    }

    /// The setting at these places of all axes, from 0 to 1.
    #[must_use]
    pub fn at(&self, places: &[f64]) -> Setting {
        let axes = self.axes.iter().zip(places);
        Setting(axes.map(|(axis, place)| Some(axis.values.at(*place))).collect())
    }

    /// What a setting writes into the file.
    #[must_use]
    pub fn changes(&self, setting: &Setting) -> Vec<(Key, Value)> {
        let chosen = self.axes.iter().zip(&setting.0);
        let chosen = chosen.filter_map(|(axis, choice)| Some((axis, choice.as_ref()?)));
        let written = |(axis, choice): (&Axis, &Choice)| {
            axis.keys.iter().cloned().zip(choice.values.iter().cloned()).collect::<Vec<_>>()
        };
        chosen.flat_map(written).collect()
    }

    /// What distinguishes a setting from others: what it writes.
    #[must_use]
    pub fn name(&self, setting: &Setting) -> String {
        let changes = self.changes(setting).into_iter();
        let parts = changes.map(|(key, value)| format!("{key} = {}", value.to_string().trim()));
        parts.collect::<Vec<_>>().join("; ")
    }

    /// A setting for people: `rto.initial = 35s, r1 = 2`.
    #[must_use]
    pub fn label(&self, setting: &Setting) -> String {
        let chosen = self.axes.iter().zip(&setting.0);
        let parts = chosen.filter_map(|(axis, choice)| {
            Some(format!("{} = {}", axis.name, choice.as_ref()?.label))
        });
        let all = parts.collect::<Vec<_>>().join(", ");
        if all.is_empty() { "the file as it is".to_owned() } else { all }
    }
}

impl Axis {
    /// Whether this is the first or the last value of a range, beyond which there may be better.
    #[must_use]
    pub fn is_end(&self, choice: &Choice) -> bool {
        let is_range = matches!(self.values, Values::Range(_));
        is_range && self.values.ends().iter().any(|end| end.label == choice.label)
    }
}

impl Setting {
    /// The same with another value of one parameter.
    #[must_use]
    pub fn with(&self, axis: usize, choice: Choice) -> Self {
        let mut choices = self.0.clone();
        choices[axis] = Some(choice);
        Self(choices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_range_has_ends_beyond_which_there_is_more() {
        let asked = Asked::read_all("a=1s..9s,b=1s|9s", 3).expect("parameters");
        let ends: Vec<Vec<bool>> = asked
            .into_iter()
            .map(|Asked { name, values, .. }| {
                let axis = Axis { name, keys: Vec::new(), values };
                axis.values.grid().iter().map(|choice| axis.is_end(choice)).collect()
            })
            .collect();

        assert_eq!(ends, [vec![true, false, true], vec![false, false]]);
    }
}
