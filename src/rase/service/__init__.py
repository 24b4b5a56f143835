"""What both servers share: settings, keys, the HTTP app with its problem details, telemetry."""
