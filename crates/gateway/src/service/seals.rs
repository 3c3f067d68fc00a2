//! Tells an operator why a station on HF is not heard, or does not hear this one.

use base::time::Time;
use hf::s5066::Address;
use hf::s5066::seal::{Refusal, Trouble};
use tracing::warn;

use super::complaints::{Complaints, Subject};

/// Logs trouble with a seal, unless a line of the same kind was written lately.
pub fn tell(complaints: &mut Complaints, now: Time, node: Address, trouble: Trouble) {
    match trouble {
        Trouble::Refused(why @ Refusal::Misnamed { .. }) => {
            if let Some(left_out) = complaints.admit(now, Subject::OwnNodeMisnamed) {
                warn!(%why, left_out, "nothing that was sealed is taken");
            }
        }
        Trouble::Refused(why) => {
            if let Some(left_out) = complaints.admit(now, Subject::SealRefused) {
                warn!(%node, %why, left_out, "what this node sends is dropped");
            }
        }
        Trouble::Told(why) => {
            if let Some(left_out) = complaints.admit(now, Subject::SealRefusedThere) {
                warn!(%node, %why, left_out, "this node says that it drops what we send");
            }
        }
    }
}
