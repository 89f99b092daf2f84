"""What the documents are built with: pages written from the code, and the site. No part of what is deployed."""
