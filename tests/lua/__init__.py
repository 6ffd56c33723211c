"""Each script by itself on real servers, and its text against its header and the manifest."""
