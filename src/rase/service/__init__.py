"""What both servers share: settings, the HTTP app with its problem details, and telemetry."""
