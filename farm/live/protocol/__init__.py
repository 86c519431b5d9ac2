"""What hosts, submitters and provisioners say becomes events: pure, without a server."""
